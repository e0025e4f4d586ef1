package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// ConnectionSource says how the connection to a cell's cluster was determined.
type ConnectionSource string

// Values of ConnectionSource.
const (
	FromFlag           ConnectionSource = "--cell-context"
	FromCurrentContext ConnectionSource = "the current context"
	FromSecret         ConnectionSource = "the kubeconfig of the Cell's Secret"
)

// CellCluster is the cluster of a cell.
type CellCluster struct {
	Cell   string
	Config *rest.Config
	// Source says how. With FromSecret the plugin connects as Breakwater, with its identity and permissions.
	Source ConnectionSource
}

// CurrentCell returns the cell of the current context's cluster. It returns an error if there is none, or several.
func (c *ClusterFinder) CurrentCell(ctx context.Context) (CellCluster, error) {
	config, err := c.CurrentConfig()
	if err != nil {
		return CellCluster{}, err
	}
	names, err := cellsOfWebhooks(ctx, config)
	switch {
	case err != nil:
		return CellCluster{}, fmt.Errorf("find the cell of %s: %w; name it with --cell NAME", c.CurrentContext(), err)
	case len(names) == 0:
		return CellCluster{}, fmt.Errorf("the API server of %s calls Breakwater for no cell: use the context of a cluster that Breakwater protects, or name "+
			"the cell with --cell NAME", c.CurrentContext())
	case len(names) > 1:
		return CellCluster{}, fmt.Errorf("%s has the cells %s: name one with --cell NAME", c.CurrentContext(), strings.Join(names, ", "))
	}
	return CellCluster{names[0], config, FromCurrentContext}, nil
}

// Cell returns the cluster of the named cell. It waits for the cores, and reads the Cell from them, only if needed.
func (c *ClusterFinder) Cell(ctx context.Context, name string, cores CoreFuture) (CellCluster, error) {
	kubeContext, err := c.cellContext(name)
	if err != nil {
		return CellCluster{}, err
	}
	if kubeContext != "" {
		config, err := c.configFor("", kubeContext)
		if err != nil {
			return CellCluster{}, fmt.Errorf("--cell-context %s=%s: %w", name, kubeContext, err)
		}
		return CellCluster{name, config, FromFlag}, nil
	}
	config, err := c.CurrentConfig()
	if err != nil {
		return CellCluster{}, err
	}
	configured, listErr := cellsOfWebhooks(ctx, config)
	if slices.Contains(configured, name) {
		return CellCluster{name, config, FromCurrentContext}, nil
	}
	all, err := cores()
	if err == nil {
		config, err = c.configFromSecret(ctx, name, all)
	}
	if err != nil {
		return CellCluster{}, fmt.Errorf("cannot connect to the cluster of cell %q: set --cell-context %s=CONTEXT, or switch to the context of that cluster (%w)",
			name, name, errors.Join(listErr, err))
	}
	return CellCluster{name, config, FromSecret}, nil
}

// cellContext returns the context of a cell's cluster by --cell-context; empty for none. An argument before it that cannot be parsed is an error.
func (c *ClusterFinder) cellContext(name string) (string, error) {
	for _, argument := range c.cellContexts {
		cell, kubeContext, ok := strings.Cut(argument, "=")
		if !ok || cell == "" || kubeContext == "" {
			return "", fmt.Errorf("--cell-context %q: want CELL=CONTEXT", argument)
		}
		if cell == name {
			return kubeContext, nil
		}
	}
	return "", nil
}

// KubectlFlags returns the flags with which kubectl uses the cluster of a cell, with a space before each; none if it is the current context.
func (c *ClusterFinder) KubectlFlags(cell string) (flags string) {
	if *c.current.KubeConfig != "" {
		flags = " --kubeconfig " + cli.ShellWord(*c.current.KubeConfig)
	}
	kubeContext, err := c.cellContext(cell)
	if err != nil || kubeContext == "" {
		kubeContext = *c.current.Context
	}
	if kubeContext != "" {
		flags += " --context " + cli.ShellWord(kubeContext)
	}
	return flags
}

func (c *ClusterFinder) configFromSecret(ctx context.Context, name string, cores []Core) (*rest.Config, error) {
	var errs []error
	for _, core := range cores {
		cell := &v1alpha1.Cell{}
		err := core.Get(ctx, client.ObjectKey{Name: name}, cell)
		switch {
		case err != nil:
			errs = append(errs, core.WithRemedy(err))
		case cell.Spec.KubeconfigSecretRef == nil:
			errs = append(errs, fmt.Errorf("Cell %s does not name a Secret with a kubeconfig", name))
		default:
			config, _, err := clusters.Connect(ctx, core, cell, "kubectl")
			if err != nil {
				errs = append(errs, err)
				continue
			}
			current, err := c.CurrentConfig()
			if err != nil {
				return nil, err
			}
			config = c.configure(config)
			config.Timeout = current.Timeout
			return config, nil
		}
	}
	return nil, errors.Join(errs...)
}

// cellsOfWebhooks returns the cells for which an API server calls Breakwater.
func cellsOfWebhooks(ctx context.Context, config *rest.Config) ([]string, error) {
	configurations, err := WebhookConfigurations(ctx, config)
	if err != nil {
		return nil, err
	}
	return webhookconfig.CellNames(configurations), nil
}

// WebhookConfigurations returns the ValidatingWebhookConfigurations of a cluster.
func WebhookConfigurations(ctx context.Context, config *rest.Config) ([]admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := clientset.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, ListError(config, "ValidatingWebhookConfigurations", err)
	}
	return list.Items, nil
}

// ListError adds what was listed, as a plural, and a remedy to an error.
func ListError(config *rest.Config, kind string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not list %s at %s: %w", kind, config.Host, err)
	}
	return WithRemedy(config, err)
}
