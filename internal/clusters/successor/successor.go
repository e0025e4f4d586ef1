// Package successor reads from a cluster what the release of pods to the successor of their controller depends on, and releases them. Package
// succession decides.
package successor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/internal/core/succession"
)

// Cluster is a cluster with pods. All of its reads are live.
type Cluster struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Mapper  meta.RESTMapper
}

// NewCluster returns the cluster of a client configuration.
func NewCluster(config *rest.Config) (*Cluster, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if c.Mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
		return nil, err
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, err
	}
	c.Client, err = kubernetes.NewForConfigAndClient(config, httpClient)
	return c, err
}

// Named returns the object that has the group, the kind and the name of the controller of pods in a namespace, or nil if there is none. It looks at
// the scope of the kind: a controller of namespaced pods may be cluster-scoped. An object of a kind that is not served is an error, because it
// may still be stored.
func (c *Cluster) Named(ctx context.Context, namespace string, controller metav1.OwnerReference) (*succession.Object, error) {
	version, err := schema.ParseGroupVersion(controller.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("owner %s %s: %w", controller.Kind, controller.Name, err)
	}
	// The API server may not serve the version of the reference any more. All versions of a kind show the same objects.
	mapping, err := c.Mapper.RESTMapping(schema.GroupKind{Group: version.Group, Kind: controller.Kind})
	if err != nil {
		return nil, fmt.Errorf("owner %s %s: %w", controller.Kind, controller.Name, err)
	}
	objects := dynamic.ResourceInterface(c.Dynamic.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		objects = c.Dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	found, err := objects.Get(ctx, controller.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", controller.Kind, controller.Name, err)
	}
	named := &succession.Object{
		UID: found.GetUID(), Terminating: found.GetDeletionTimestamp() != nil, ClusterScoped: mapping.Scope.Name() == meta.RESTScopeNameRoot,
	}
	if named.UID == controller.UID || named.Terminating {
		return named, nil // it is no successor
	}
	named.Selector, err = selectorOf(ctx, objects, found)
	return named, err
}

// selectorOf returns the selector of an object's pods: spec.selector, or else that of its scale. It is nil if the object states neither.
func selectorOf(ctx context.Context, objects dynamic.ResourceInterface, found *unstructured.Unstructured) (labels.Selector, error) {
	if value, exists, err := unstructured.NestedMap(found.Object, "spec", "selector"); err == nil && exists {
		return succession.ParseSelector(value), nil
	}
	scale, err := objects.Get(ctx, found.GetName(), metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the scale of %s %s: %w", found.GetKind(), found.GetName(), err)
	}
	text, _, err := unstructured.NestedString(scale.Object, "status", "selector")
	if err != nil || text == "" {
		return nil, nil //nolint:nilerr // such a scale states no selector
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	return selector, nil
}

// PodsOf lists the pods of a controller that the object selects.
func (c *Cluster) PodsOf(ctx context.Context, namespace string, controller metav1.OwnerReference, named *succession.Object) ([]corev1.Pod, error) {
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: named.Selector.String()})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for i := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil && owner.UID == controller.UID {
			pods = append(pods, list.Items[i])
		}
	}
	return pods, nil
}

// Release removes the reference to its controller from a pod for which succession.Decide returned Release. It fails with a conflict if the pod
// has changed since it was read, so that several processes may release the same pod.
func (c *Cluster) Release(ctx context.Context, pod *corev1.Pod, fieldManager string) error {
	patch, err := succession.Patch(pod)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, succession.PatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
