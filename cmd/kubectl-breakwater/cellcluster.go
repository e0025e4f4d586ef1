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

// found says how the connection to a cell's cluster was determined.
type found string

const (
	byFlag   found = "--cell-context"
	byHere   found = "the current context"
	bySecret found = "the kubeconfig of the Cell's Secret"
)

// cellCluster is the cluster of a cell.
type cellCluster struct {
	Cell   string
	Config *rest.Config
	// Found says how. With bySecret the plugin connects as Breakwater, with its identity and permissions.
	Found found
}

// CellHere returns the cell of the current context's cluster. It returns an error if there is none, or several.
func (c *clusterFinder) CellHere(ctx context.Context) (cellCluster, error) {
	config, err := c.Here()
	if err != nil {
		return cellCluster{}, err
	}
	names, err := cellsAsked(ctx, config)
	switch {
	case err != nil:
		return cellCluster{}, fmt.Errorf("find out which cell %s is: %w; say it by --cell NAME", c.currentContext(), err)
	case len(names) == 0:
		return cellCluster{}, fmt.Errorf("%s asks Breakwater about no cell: use the context of a cluster that it guards, or say which cell by --cell NAME", c.currentContext())
	case len(names) > 1:
		return cellCluster{}, fmt.Errorf("%s has the cells %s: say which by --cell NAME", c.currentContext(), strings.Join(names, ", "))
	}
	return cellCluster{names[0], config, byHere}, nil
}

// Cell returns the cluster of the named cell. It reads the Cell from the cores if needed.
func (c *clusterFinder) Cell(ctx context.Context, name string, cores []core) (cellCluster, error) {
	for _, argument := range c.cellContexts {
		cell, kubeContext, ok := strings.Cut(argument, "=")
		if !ok || cell == "" || kubeContext == "" {
			return cellCluster{}, fmt.Errorf("--cell-context %q: want CELL=CONTEXT", argument)
		}
		if cell == name {
			config, err := c.at("", kubeContext)
			if err != nil {
				return cellCluster{}, fmt.Errorf("--cell-context %s: %w", argument, err)
			}
			return cellCluster{name, config, byFlag}, nil
		}
	}
	config, err := c.Here()
	if err != nil {
		return cellCluster{}, err
	}
	asked, unread := cellsAsked(ctx, config)
	if slices.Contains(asked, name) {
		return cellCluster{name, config, byHere}, nil
	}
	config, err = c.bySecret(ctx, name, cores)
	if err != nil {
		return cellCluster{}, fmt.Errorf("no way to the cluster of cell %q: give --cell-context %s=CONTEXT, or go to the context of that cluster (%w)",
			name, name, errors.Join(unread, err))
	}
	return cellCluster{name, config, bySecret}, nil
}

func (c *clusterFinder) bySecret(ctx context.Context, name string, cores []core) (*rest.Config, error) {
	var errs []error
	for _, core := range cores {
		cell := &v1alpha1.Cell{}
		err := core.Get(ctx, keyOf("", name), cell)
		switch {
		case err != nil:
			errs = append(errs, core.failure(err))
		case cell.Spec.KubeconfigSecretRef == nil:
			errs = append(errs, fmt.Errorf("Cell %s names no Secret with a kubeconfig", name))
		default:
			config, _, err := clusters.Connect(ctx, core, cell, "kubectl")
			if err != nil {
				errs = append(errs, err)
				continue
			}
			here, err := c.Here()
			if err != nil {
				return nil, err
			}
			config = named(config)
			config.Timeout = here.Timeout
			return config, nil
		}
	}
	return nil, errors.Join(errs...)
}

// cellsAsked returns the cells for which an API server calls Breakwater.
func cellsAsked(ctx context.Context, config *rest.Config) ([]string, error) {
	configurations, err := webhookConfigurations(ctx, config)
	if err != nil {
		return nil, err
	}
	return webhookconfig.Cells(configurations), nil
}

func webhookConfigurations(ctx context.Context, config *rest.Config) ([]admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	list, err := listed(ctx, config, "ValidatingWebhookConfigurations", func(c kubernetes.Interface) lister[admissionregistrationv1.ValidatingWebhookConfigurationList] {
		return c.AdmissionregistrationV1().ValidatingWebhookConfigurations().List
	})
	return list.Items, err
}

func mutatingConfigurations(ctx context.Context, config *rest.Config) ([]admissionregistrationv1.MutatingWebhookConfiguration, error) {
	list, err := listed(ctx, config, "MutatingWebhookConfigurations", func(c kubernetes.Interface) lister[admissionregistrationv1.MutatingWebhookConfigurationList] {
		return c.AdmissionregistrationV1().MutatingWebhookConfigurations().List
	})
	return list.Items, err
}

type lister[L any] func(ctx context.Context, options metav1.ListOptions) (*L, error)

// listed lists all objects of a kind. kind is the plural for errors. After an error the list is empty.
func listed[L any](ctx context.Context, config *rest.Config, kind string, of func(kubernetes.Interface) lister[L]) (*L, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return new(L), err
	}
	list, err := of(clientset)(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return new(L), fmt.Errorf("you may not list %s at %s", kind, config.Host)
	}
	if err != nil {
		return new(L), failure(config, err)
	}
	return list, nil
}
