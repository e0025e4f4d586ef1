package join

import (
	"context"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func (o *Options) newKubeconfigSecret(l *link, kubeconfig []byte) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"type": "Opaque", "data": map[string]any{kubeconfigKey: base64.StdEncoding.EncodeToString(kubeconfig)},
	}}
	object.SetAPIVersion("v1")
	object.SetKind("Secret")
	object.SetNamespace(o.Namespace)
	object.SetName(l.secret)
	object.SetLabels(o.secretLabels(v1alpha1.JoinedByKubeconfig))
	return object
}

// newCell returns a Cell whose only field is the reference to that Secret.
func (o *Options) newCell(l *link) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kubeconfigSecretRef": map[string]any{"namespace": o.Namespace, "name": l.secret, "key": kubeconfigKey},
	}}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Cell"))
	object.SetName(o.Cell)
	return object
}

// userObjects returns all objects that join creates in the cluster of the user.
func (o *Options) userObjects(l *link, kubeconfig []byte) []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{o.newKubeconfigSecret(l, kubeconfig)}
	if l.direction == CoreToWorker && !o.NoCell {
		objects = append(objects, o.newCell(l))
	}
	return objects
}

// apply applies objects to a cluster, as Owner unless an option names another manager. It does not take ownership of fields that other managers own.
func (c *connectedCluster) apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) error {
	for _, object := range objects {
		object = object.DeepCopy()
		name := object.GetKind() + " " + object.GetName()
		if namespace := object.GetNamespace(); namespace != "" {
			name = object.GetKind() + " " + namespace + "/" + object.GetName()
		}
		err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), append([]client.ApplyOption{client.FieldOwner(Owner)}, options...)...)
		if apierrors.IsConflict(err) {
			return fmt.Errorf("%s in %s is managed by another client, which would revert the change: change it there (--output yaml prints it), or delete it first: %w",
				name, c.title, err)
		}
		if err != nil {
			return fmt.Errorf("write %s into %s: %w", name, c.title, err)
		}
	}
	return nil
}

// requireCell returns an error if the Cell exists and belongs to another cluster. If the Cell has no recorded cluster, its aggregator
// will record one.
func (o *Options) requireCell(ctx context.Context, core, worker *connectedCluster) error {
	cell := &v1alpha1.Cell{}
	err := core.client.Get(ctx, client.ObjectKey{Name: o.Cell}, cell)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s does not serve Cells: install the chart breakwater-crds there, or correct --core-kubeconfig", core.title)
	case err != nil:
		return fmt.Errorf("get Cell %s in %s: %w", o.Cell, core.title, err)
	}
	if known := cell.Status.Cluster; known != "" && known != worker.uid {
		return fmt.Errorf("cell %s is in another cluster (%s) than the worker of --kubeconfig (%s), and cannot be moved: correct --kubeconfig, or join this "+
			"one under another --cell",
			o.Cell, known, worker.uid)
	}
	return nil
}
