package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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
	files, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return err
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}}
	for _, file := range files {
		raw, err := crds.FS.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &definition.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, definition)
	}
	if err := createIn(ctx, i.options.Workers, objects...); err != nil {
		return err
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
