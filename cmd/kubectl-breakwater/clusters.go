package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// clusterFinder finds the clusters of a command.
type clusterFinder struct {
	// here is the current context with kubectl's flags applied.
	here *genericclioptions.ConfigFlags
	// coreContext and coreKubeconfig locate the only core cluster. They exclude cores.
	coreContext    string
	coreKubeconfig string
	cores          []string
	cellContexts   []string
}

// core is a core cluster. Its name is empty if there is only one.
type core struct {
	client.WithWatch
	Name   string
	Config *rest.Config
}

func newClusters() *clusterFinder {
	return &clusterFinder{here: genericclioptions.NewConfigFlags(true)}
}

func (c *clusterFinder) bind(flags *pflag.FlagSet) {
	c.here.AddFlags(flags)
	for _, name := range []string{
		"cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster", "disable-compression", "insecure-skip-tls-verify",
		"server", "tls-server-name", "token", "user", "as-uid", "as-user-extra", "proxy-url",
	} {
		if flag := flags.Lookup(name); flag != nil {
			flag.Hidden = true // works as in kubectl, and would hide the plugin's own flags
		}
	}
	flags.StringVar(&c.coreContext, "core-context", os.Getenv("BREAKWATER_CORE_CONTEXT"), "`context` of the core cluster (BREAKWATER_CORE_CONTEXT)")
	flags.StringVar(&c.coreKubeconfig, "core-kubeconfig", os.Getenv("BREAKWATER_CORE_KUBECONFIG"), "kubeconfig `file` of the core cluster (BREAKWATER_CORE_KUBECONFIG)")
	flags.StringArrayVar(&c.cores, "core", nil, "one of several core clusters, as `NAME=KUBECONFIG`; may be repeated")
	flags.StringArrayVar(&c.cellContexts, "cell-context", nil, "`CELL=CONTEXT`: the context of the cluster that a cell is in; may be repeated")
}

// Namespace returns the value of --namespace, or else the namespace of the current context.
func (c *clusterFinder) Namespace() (string, error) {
	namespace, _, err := c.here.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace of the current context: %w", err)
	}
	return namespace, nil
}

// Here returns the client configuration of the current context.
func (c *clusterFinder) Here() (*rest.Config, error) {
	config, err := c.here.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("current context: %w", err)
	}
	return named(config), nil
}

// at returns the client configuration of another cluster than that of the current context. It keeps the impersonated user, but not
// kubectl's other flags for clusters and credentials. Empty arguments select kubectl's defaults.
func (c *clusterFinder) at(kubeconfig, kubeContext string) (*rest.Config, error) {
	there := genericclioptions.NewConfigFlags(true)
	if kubeconfig == "" {
		kubeconfig = *c.here.KubeConfig
	}
	there.KubeConfig, there.Context, there.Timeout = &kubeconfig, &kubeContext, c.here.Timeout
	there.Impersonate, there.ImpersonateUID = c.here.Impersonate, c.here.ImpersonateUID
	there.ImpersonateGroup, there.ImpersonateUserExtra = c.here.ImpersonateGroup, c.here.ImpersonateUserExtra
	config, err := there.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return named(config), nil
}

// named sets the user agent. It disables client-side rate limiting, because a command sends few requests.
func named(config *rest.Config) *rest.Config {
	config.QPS, config.UserAgent = -1, "kubectl-breakwater/"+version.String()
	return config
}

// Cores returns all core clusters, at least one.
func (c *clusterFinder) Cores(ctx context.Context) ([]core, error) {
	switch {
	case len(c.cores) > 0 && (c.coreContext != "" || c.coreKubeconfig != ""):
		return nil, fmt.Errorf("give either --core NAME=KUBECONFIG for each core cluster, or --core-context and --core-kubeconfig for the only one")
	case len(c.cores) > 0:
		return c.namedCores()
	case c.coreContext != "" || c.coreKubeconfig != "":
		config, err := c.at(c.coreKubeconfig, c.coreContext)
		if err != nil {
			return nil, fmt.Errorf("core cluster of %s: %w", strings.Join(c.coreFlags(), " and "), err)
		}
		one, err := newCore("", config)
		return []core{one}, err
	default:
		return c.coreHere(ctx)
	}
}

func (c *clusterFinder) coreFlags() (given []string) {
	if c.coreContext != "" {
		given = append(given, "--core-context "+c.coreContext)
	}
	if c.coreKubeconfig != "" {
		given = append(given, "--core-kubeconfig "+c.coreKubeconfig)
	}
	return given
}

func (c *clusterFinder) namedCores() ([]core, error) {
	var all []core
	for _, argument := range c.cores {
		name, connection, err := clusters.ParseNamed(argument)
		if err != nil {
			return nil, fmt.Errorf("--core: %w", err)
		}
		if slices.ContainsFunc(all, func(had core) bool { return had.Name == name }) {
			return nil, fmt.Errorf("--core %s: %q is given twice", argument, name)
		}
		config, err := c.at(connection.Kubeconfig, "")
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

func newCore(name string, config *rest.Config) (core, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: clusters.Scheme()})
	return core{WithWatch: c, Name: name, Config: config}, err
}

// coreHere returns the current context as the core cluster, if it is one.
func (c *clusterFinder) coreHere(ctx context.Context) ([]core, error) {
	config, err := c.Here()
	if err != nil {
		return nil, err
	}
	serves, err := servesCells(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("ask the current context whether it is a core cluster: %w", failure(config, err))
	}
	if !serves {
		return nil, fmt.Errorf("%s is no core cluster of Breakwater: it serves no Cells (%s). Say which cluster is: --core-context CONTEXT "+
			"(or BREAKWATER_CORE_CONTEXT), --core-kubeconfig FILE, or --core NAME=KUBECONFIG for each of several%s",
			c.currentContext(), v1alpha1.GroupVersion, c.otherContexts())
	}
	one, err := newCore("", config)
	return []core{one}, err
}

func servesCells(ctx context.Context, config *rest.Config) (bool, error) {
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	served, err := asked.ServerResourcesForGroupVersionWithContext(ctx, v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range served.APIResources {
		if served.APIResources[i].Name == "cells" {
			return true, nil
		}
	}
	return false, nil
}

func (c *clusterFinder) currentContext() string {
	file, err := c.here.ToRawKubeConfigLoader().RawConfig()
	if name := cmp.Or(*c.here.Context, file.CurrentContext); err == nil && name != "" {
		return fmt.Sprintf("context %q", name)
	}
	return "the current context"
}

// otherContexts lists the other contexts of the kubeconfig as suggestions.
func (c *clusterFinder) otherContexts() string {
	file, err := c.here.ToRawKubeConfigLoader().RawConfig()
	current := cmp.Or(*c.here.Context, file.CurrentContext)
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(file.Contexts)), func(name string) bool { return name == current })
	if err != nil || len(others) == 0 {
		return ""
	}
	const most = 10
	text := strings.Join(others[:min(len(others), most)], ", ")
	if len(others) > most {
		text += fmt.Sprintf(" and %d more", len(others)-most)
	}
	return ". Your kubeconfig has these contexts besides: " + text
}
