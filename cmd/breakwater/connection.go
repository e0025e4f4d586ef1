package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// bindCluster adds the flags that locate a cluster. The prefix distinguishes them from the flags of another cluster.
func bindCluster(flags *pflag.FlagSet, c *clusters.Connection, prefix, cluster string) {
	flags.StringVar(&c.Kubeconfig, prefix+"kubeconfig", "", "kubeconfig `file` of "+cluster+", or in-cluster; empty: the default of kubectl")
	flags.StringVar(&c.Context, prefix+"context", "", "`context` of --"+prefix+"kubeconfig")
}

// flagCluster implements commands.Cluster with flags.
type flagCluster struct {
	clusters.Connection
	namespace string
}

func (c *flagCluster) bind(command *cobra.Command, cluster, namespace string) *cobra.Command {
	bindCluster(command.Flags(), &c.Connection, "", cluster)
	command.Flags().StringVarP(&c.namespace, "namespace", "n", "", namespace)
	return command
}

// Config implements commands.Cluster, like the following methods.
func (c *flagCluster) Config(_ context.Context, component string) (*rest.Config, error) {
	config, err := c.Connection.Config(component)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}

// NamespaceFlag returns the value of --namespace.
func (c *flagCluster) NamespaceFlag() string { return c.namespace }

// Namespace returns the value of --namespace, or else the namespace of the context.
func (c *flagCluster) Namespace() (string, error) {
	if c.namespace != "" {
		return c.namespace, nil
	}
	return c.Connection.Namespace()
}

// IsSelected reports whether a flag selects the cluster.
func (c *flagCluster) IsSelected() bool { return c.Kubeconfig != "" || c.Context != "" }

func convertCommand() *cobra.Command {
	from := &flagCluster{}
	return from.bind(commands.Convert("breakwater", from), "the cluster to read", "`namespace` of the cluster to read; empty: the namespace of the context")
}

func releaseCommand() *cobra.Command {
	core := &flagCluster{}
	return core.bind(commands.ReleaseWithWebhooks("breakwater", core), "the core cluster", "only objects in this `namespace`")
}

// bindUser adds the impersonation flags.
func bindUser(flags *pflag.FlagSet, c *clusters.Connection, prefix, cluster string) {
	flags.StringVar(&c.As, prefix+"as", "", "`user` to impersonate in "+cluster)
	flags.StringSliceVar(&c.AsGroups, prefix+"as-group", nil, "`group` to impersonate in "+cluster+"; may be repeated")
}

// namedConfigs parses the NAME=KUBECONFIG values of a flag, with the impersonation of as. The caller must run the reloaders as long as
// it uses the configurations.
func namedConfigs(flag string, arguments []string, as clusters.Connection, component string) (map[string]*rest.Config, []*clusters.KubeconfigReloader, error) {
	configs, reloaders := map[string]*rest.Config{}, []*clusters.KubeconfigReloader(nil)
	for _, argument := range arguments {
		name, connection, err := clusters.ParseNamed(argument)
		if err != nil {
			return nil, nil, fmt.Errorf("--%s: %w", flag, err)
		}
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, nil, fmt.Errorf("--%s %s: %q is not a name: %s", flag, argument, name, problems[0])
		}
		if _, ok := configs[name]; ok {
			return nil, nil, fmt.Errorf("--%s %s: %q is given twice", flag, argument, name)
		}
		connection.As, connection.AsGroups = as.As, as.AsGroups
		var reloader *clusters.KubeconfigReloader
		if configs[name], reloader, err = connection.ReloadingConfig(component); err != nil {
			return nil, nil, fmt.Errorf("--%s %s: %w", flag, argument, err)
		}
		reloaders = append(reloaders, reloader)
	}
	return configs, reloaders, nil
}

// parseService parses the value of --service. The default port is 443.
func parseService(service string) (key client.ObjectKey, port int32, err error) {
	text, portText, hasPort := strings.Cut(service, ":")
	key, ok := parseNamespacedName(text)
	if !ok {
		return key, 0, fmt.Errorf("--service %q: want NAMESPACE/NAME[:PORT]", service)
	}
	if !hasPort {
		return key, 443, nil
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || number == 0 {
		return key, 0, fmt.Errorf("--service %q: want NAMESPACE/NAME[:PORT] with a port from 1 to 65535", service)
	}
	return key, int32(number), nil
}

// parseNamespacedName parses NAMESPACE/NAME.
func parseNamespacedName(text string) (key client.ObjectKey, ok bool) {
	namespace, name, ok := strings.Cut(text, "/")
	return client.ObjectKey{Namespace: namespace, Name: name},
		ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}
