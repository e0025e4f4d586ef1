package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// ShareAggregatorName returns the name of the aggregator that counts for the shares of a worker.
func ShareAggregatorName(worker string) string { return "aggregator-of-shares-" + worker }

// shareCore returns the name that the webhooks give to a worker as the core of its shares.
func shareCore(worker string) string { return "shares-" + worker }

// prepareShares makes the workers able to have shares.
func (i *Installation) prepareShares(ctx context.Context) error {
	if !i.options.Shares {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}
	if err := createIn(ctx, i.options.Workers, namespace); err != nil {
		return err
	}
	for _, worker := range i.options.Workers {
		if err := federation.InstallDefinitions(ctx, worker.RESTConfig()); err != nil {
			return fmt.Errorf("cluster %s: %w", worker.Name(), err)
		}
	}
	for _, worker := range i.options.Workers {
		c, err := Client(worker)
		if err != nil {
			return err
		}
		if err := awaitAPI(ctx, c); err != nil {
			return fmt.Errorf("wait for the API of Breakwater in cluster %s: %w", worker.Name(), err)
		}
	}
	return nil
}

// awaitAPI returns when a cluster serves PodProtectors and Cells, some time after their CustomResourceDefinitions were created.
func awaitAPI(ctx context.Context, c client.Client) error {
	return wait.PollUntilContextCancel(ctx, readyPause, true, func(ctx context.Context) (bool, error) {
		return errors.Join(c.List(ctx, &v1alpha1.PodProtectorList{}), c.List(ctx, &v1alpha1.CellList{})) == nil, nil
	})
}

// shareAggregators returns the aggregators of the shares.
func (i *Installation) shareAggregators() (wanted []component) {
	if !i.options.Shares {
		return nil
	}
	for _, worker := range i.options.Workers {
		name := ShareAggregatorName(worker.Name())
		kubeconfig := i.options.Kubeconfig(name, worker)
		wanted = append(wanted, component{name: name, arguments: append([]string{
			"aggregator", "--of-shares", "--cell=" + worker.Name(), "--core-kubeconfig=" + kubeconfig, "--kubeconfig=" + kubeconfig,
		}, i.options.AggregatorArguments...)})
	}
	return wanted
}

// coreArguments returns the arguments that name the cores of a webhook.
func (i *Installation) coreArguments(webhook string) (arguments []string) {
	for _, core := range i.options.Cores {
		arguments = append(arguments, "--core="+core.Name()+"="+i.options.Kubeconfig(webhook, core))
	}
	if i.options.Shares {
		for _, core := range i.options.Cores {
			arguments = append(arguments, "--cells-of="+core.Name())
		}
		for _, worker := range i.options.Workers {
			arguments = append(arguments, "--core="+shareCore(worker.Name())+"="+i.options.Kubeconfig(webhook, worker))
		}
	}
	return arguments
}
