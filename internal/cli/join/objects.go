package join

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// userObjects returns all objects that join creates in the cluster of the user.
func (o *Options) userObjects(l *link, kubeconfig []byte) []client.Object {
	objects := []client.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: l.secret, Labels: o.secretLabels(v1alpha1.JoinedByKubeconfig)},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{kubeconfigKey: kubeconfig},
	}}
	if l.direction == CoreToWorker && !o.NoCell {
		cell := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{ // of the spec only what join owns
			"kubeconfigSecretRef": map[string]any{"namespace": o.Namespace, "name": l.secret, "key": kubeconfigKey},
		}}}
		cell.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Cell"))
		cell.SetName(o.Cell)
		objects = append(objects, cell)
	}
	return objects
}

// manifestOf returns an object as a user would write it.
func manifestOf(object client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, clusters.Scheme())
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	manifest := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(manifest.Object, "metadata", "creationTimestamp")
	manifest.SetGroupVersionKind(kind)
	return manifest, nil
}

// nameOf returns Kind namespace/name.
func nameOf(object client.Object) string {
	kind, _ := apiutil.GVKForObject(object, clusters.Scheme()) // fails only for a type that the scheme does not have
	return kind.Kind + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}

// apply applies objects to a cluster, as Owner unless an option names another manager. It does not take ownership of fields that other managers own.
func (c *connectedCluster) apply(ctx context.Context, objects []client.Object, options ...client.ApplyOption) error {
	for _, object := range objects {
		manifest, err := manifestOf(object)
		if err == nil {
			err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(manifest), append([]client.ApplyOption{client.FieldOwner(Owner)}, options...)...)
		}
		if apierrors.IsConflict(err) {
			return fmt.Errorf("%s in %s is managed by another client, which would revert the change: change it there (--output yaml prints it), or delete it first: %w",
				nameOf(object), c.title, err)
		}
		if err != nil {
			return fmt.Errorf("write %s into %s: %w", nameOf(object), c.title, err)
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
