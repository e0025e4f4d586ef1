package main

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

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// connectionSource says how the connection to a cell's cluster was determined.
type connectionSource string

const (
	fromFlag           connectionSource = "--cell-context"
	fromCurrentContext connectionSource = "the current context"
	fromSecret         connectionSource = "the kubeconfig of the Cell's Secret"
)

type cellCluster struct {
	Cell   string
	Config *rest.Config
	// Source says how. With fromSecret the plugin connects as Breakwater, with its identity and permissions.
	Source connectionSource
}

// CurrentCell returns the cell of the current context's cluster. It returns an error if there is none, or several.
func (c *clusterFinder) CurrentCell(ctx context.Context) (cellCluster, error) {
	config, err := c.CurrentConfig()
	if err != nil {
		return cellCluster{}, err
	}
	names, err := cellsOfWebhooks(ctx, config)
	switch {
	case err != nil:
		return cellCluster{}, fmt.Errorf("find the cell of %s: %w; name it with --cell NAME", c.currentContext(), err)
	case len(names) == 0:
		return cellCluster{}, fmt.Errorf("the API server of %s calls Breakwater for no cell: use the context of a cluster that Breakwater protects, or name "+
			"the cell with --cell NAME", c.currentContext())
	case len(names) > 1:
		return cellCluster{}, fmt.Errorf("%s has the cells %s: name one with --cell NAME", c.currentContext(), strings.Join(names, ", "))
	}
	return cellCluster{names[0], config, fromCurrentContext}, nil
}

// Cell returns the cluster of the named cell. It waits for the cores, and reads the Cell from them, only if needed.
func (c *clusterFinder) Cell(ctx context.Context, name string, cores coreFuture) (cellCluster, error) {
	kubeContext, err := c.cellContext(name)
	if err != nil {
		return cellCluster{}, err
	}
	if kubeContext != "" {
		config, err := c.configFor("", kubeContext)
		if err != nil {
			return cellCluster{}, fmt.Errorf("--cell-context %s=%s: %w", name, kubeContext, err)
		}
		return cellCluster{name, config, fromFlag}, nil
	}
	config, err := c.CurrentConfig()
	if err != nil {
		return cellCluster{}, err
	}
	configured, listErr := cellsOfWebhooks(ctx, config)
	if slices.Contains(configured, name) {
		return cellCluster{name, config, fromCurrentContext}, nil
	}
	all, err := cores()
	if err == nil {
		config, err = c.configFromSecret(ctx, name, all)
	}
	if err != nil {
		return cellCluster{}, fmt.Errorf("cannot connect to the cluster of cell %q: set --cell-context %s=CONTEXT, or switch to the context of that cluster (%w)",
			name, name, errors.Join(listErr, err))
	}
	return cellCluster{name, config, fromSecret}, nil
}

// cellContext returns the context of a cell's cluster by --cell-context; empty for none. An argument before it that cannot be parsed is an error.
func (c *clusterFinder) cellContext(name string) (string, error) {
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

// kubectlFlags returns the flags with which kubectl uses the cluster of a cell, with a space before each; none if it is the current context.
func (c *clusterFinder) kubectlFlags(cell string) (flags string) {
	if *c.current.KubeConfig != "" {
		flags = " --kubeconfig " + shellWord(*c.current.KubeConfig)
	}
	kubeContext, err := c.cellContext(cell)
	if err != nil || kubeContext == "" {
		kubeContext = *c.current.Context
	}
	if kubeContext != "" {
		flags += " --context " + shellWord(kubeContext)
	}
	return flags
}

func (c *clusterFinder) configFromSecret(ctx context.Context, name string, cores []core) (*rest.Config, error) {
	var errs []error
	for _, core := range cores {
		cell := &v1alpha1.Cell{}
		err := core.Get(ctx, keyOf("", name), cell)
		switch {
		case err != nil:
			errs = append(errs, core.withRemedy(err))
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
	configurations, err := webhookConfigurations(ctx, config)
	if err != nil {
		return nil, err
	}
	return webhookconfig.CellNames(configurations), nil
}

func webhookConfigurations(ctx context.Context, config *rest.Config) ([]admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := clientset.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, listError(config, "ValidatingWebhookConfigurations", err)
	}
	return list.Items, nil
}

// listError adds what was listed, as a plural, and a remedy to an error.
func listError(config *rest.Config, kind string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not list %s at %s: %w", kind, config.Host, err)
	}
	return withRemedy(config, err)
}
