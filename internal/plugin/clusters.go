package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// ClusterFinder finds the clusters of a command.
type ClusterFinder struct {
	// current is the current context with kubectl's flags applied.
	current *genericclioptions.ConfigFlags
	// coreContext and coreKubeconfig locate the only core cluster. They exclude cores.
	coreContext    string
	coreKubeconfig string
	cores          []string
	cellContexts   []string
	// Report, if set, receives how the core was found if no flag says it.
	Report func(format string, arguments ...any)
	// NamesEnvironment reports also a core that the environment sets, for users at a terminal, who may have forgotten it.
	NamesEnvironment bool
}

// Core is a core cluster. Its name is empty if there is only one.
type Core struct {
	client.WithWatch
	Name   string
	Config *rest.Config
}

func (c *ClusterFinder) bind(flags *pflag.FlagSet) {
	c.current.AddFlags(flags)
	for _, name := range []string{
		"cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster", "disable-compression", "insecure-skip-tls-verify",
		"server", "tls-server-name", "token", "user", "as-uid", "as-user-extra", "proxy-url",
	} {
		if flag := flags.Lookup(name); flag != nil {
			flag.Hidden = true // works as in kubectl, and would hide the plugin's own flags
		}
	}
	flags.StringVar(&c.coreContext, "core-context", "", "`context` of the core cluster (BREAKWATER_CORE_CONTEXT)")
	flags.StringVar(&c.coreKubeconfig, "core-kubeconfig", "", "kubeconfig `file` of the core cluster (BREAKWATER_CORE_KUBECONFIG)")
	flags.StringArrayVar(&c.cores, "core", nil, "one of several core clusters, as `NAME=KUBECONFIG`; may be repeated")
	flags.StringArrayVar(&c.cellContexts, "cell-context", nil, "`CELL=CONTEXT`: the context of a cell's cluster; may be repeated")
}

// Namespace returns the value of --namespace, or else the namespace of the current context.
func (c *ClusterFinder) Namespace() (string, error) {
	namespace, _, err := c.current.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("get the namespace of the current context: %w", err)
	}
	return namespace, nil
}

// CurrentConfig returns the client configuration of the current context.
func (c *ClusterFinder) CurrentConfig() (*rest.Config, error) {
	config, err := c.current.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("current context: %w", err)
	}
	return c.configure(config), nil
}

// configFor returns the client configuration of another cluster than that of the current context. It keeps the impersonated user, but not
// kubectl's other flags for clusters and credentials. Empty arguments select kubectl's defaults.
func (c *ClusterFinder) configFor(kubeconfig, kubeContext string) (*rest.Config, error) {
	target := genericclioptions.NewConfigFlags(true)
	if kubeconfig == "" {
		kubeconfig = *c.current.KubeConfig
	}
	target.KubeConfig, target.Context, target.Timeout = &kubeconfig, &kubeContext, c.current.Timeout
	target.Impersonate, target.ImpersonateUID = c.current.Impersonate, c.current.ImpersonateUID
	target.ImpersonateGroup, target.ImpersonateUserExtra = c.current.ImpersonateGroup, c.current.ImpersonateUserExtra
	config, err := target.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return c.configure(config), nil
}

// configure sets the user agent, and limits how long reads wait for a response. It disables client-side rate limiting, because a command sends few
// requests.
func (c *ClusterFinder) configure(config *rest.Config) *rest.Config {
	config.QPS, config.UserAgent = -1, "kubectl-breakwater/"+version.String()
	limit := c.Limit()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &responseLimit{next, limit} })
	return config
}

// Cores returns all core clusters, at least one. Flags replace both variables of the environment, which replace what the current context's cluster
// names.
func (c *ClusterFinder) Cores(ctx context.Context) ([]Core, error) {
	only := coreLocation{c.coreContext, c.coreKubeconfig}
	inFlags := only != coreLocation{}
	if !inFlags && len(c.cores) == 0 {
		only = coreLocation{os.Getenv(coreContextVariable), os.Getenv(coreKubeconfigVariable)}
	}
	switch {
	case len(c.cores) > 0 && inFlags:
		return nil, fmt.Errorf("set either --core NAME=KUBECONFIG for each core cluster, or --core-context and --core-kubeconfig for the only one")
	case len(c.cores) > 0:
		return c.coresFromFlags()
	case inFlags:
		return c.locatedCore(only, "--core-context ", "--core-kubeconfig ")
	case only != coreLocation{}:
		if c.NamesEnvironment {
			c.reportCore(cmp.Or(only.context, only.kubeconfig), "set by %s", only.describe(coreContextVariable, coreKubeconfigVariable, coreLocation{}))
		}
		return c.locatedCore(only, coreContextVariable+"=", coreKubeconfigVariable+"=")
	default:
		return c.currentCore(ctx)
	}
}

const coreContextVariable, coreKubeconfigVariable = "BREAKWATER_CORE_CONTEXT", "BREAKWATER_CORE_KUBECONFIG"

// coreLocation locates the only core cluster.
type coreLocation struct{ context, kubeconfig string }

// describe joins the names of those parts of the location that are set, each followed by its value in values.
func (l coreLocation) describe(contextName, kubeconfigName string, values coreLocation) string {
	var parts []string
	if l.context != "" {
		parts = append(parts, contextName+values.context)
	}
	if l.kubeconfig != "" {
		parts = append(parts, kubeconfigName+values.kubeconfig)
	}
	return strings.Join(parts, " and ")
}

// locatedCore returns the only core cluster. contextName and kubeconfigName precede its location in errors.
func (c *ClusterFinder) locatedCore(at coreLocation, contextName, kubeconfigName string) ([]Core, error) {
	config, err := c.configFor(at.kubeconfig, at.context)
	if err != nil {
		return nil, fmt.Errorf("core cluster of %s: %w", at.describe(contextName, kubeconfigName, at), err)
	}
	return onlyCore(config)
}

func (c *ClusterFinder) coresFromFlags() ([]Core, error) {
	var all []Core
	for _, argument := range c.cores {
		name, connection, err := clusters.ParseNamed(argument)
		if err != nil {
			return nil, fmt.Errorf("--core: %w", err)
		}
		if slices.ContainsFunc(all, func(other Core) bool { return other.Name == name }) {
			return nil, fmt.Errorf("--core %s: %q is given twice", argument, name)
		}
		config, err := c.configFor(connection.Kubeconfig, "")
		if err != nil {
			return nil, fmt.Errorf("--core %s: %w", argument, err)
		}
		one, err := newCore(name, config)
		if err != nil {
			return nil, fmt.Errorf("--core %s: %w", argument, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func newCore(name string, config *rest.Config) (Core, error) {
	scheme := clusters.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return Core{}, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return Core{WithWatch: c, Name: name, Config: config}, err
}

// onlyCore returns the only core cluster, which has no name.
func onlyCore(config *rest.Config) ([]Core, error) {
	one, err := newCore("", config)
	return []Core{one}, err
}

func servesCells(ctx context.Context, config *rest.Config) (bool, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	served, err := discoveryClient.ServerResourcesForGroupVersionWithContext(ctx, v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "cells" }), nil
}

// CurrentContext names the current context in a sentence.
func (c *ClusterFinder) CurrentContext() string {
	file, err := c.current.ToRawKubeConfigLoader().RawConfig()
	if name := cmp.Or(*c.current.Context, file.CurrentContext); err == nil && name != "" {
		return fmt.Sprintf("context %q", name)
	}
	return "the current context"
}
