package wake

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// fieldManager is the field manager of what the webhook writes in cells.
const fieldManager = "breakwater-webhook"

// cellClients holds the clients of one cell.
type cellClients struct {
	config   *rest.Config
	mapper   meta.RESTMapper
	metadata metadata.Interface
	client   kubernetes.Interface
}

func newCellClients(config *rest.Config) (*cellClients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &cellClients{config: config}
	if c.mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
		return nil, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, err
	}
	c.client, err = kubernetes.NewForConfigAndClient(config, httpClient)
	return c, err
}

// pod reads a pod. It returns nil if the pod does not exist, has another UID, or is being deleted.
func (c *cellClients) pod(ctx context.Context, namespace string, ref podRef) (*corev1.Pod, error) {
	pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil || pod.UID != ref.uid || pod.DeletionTimestamp != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pod, nil
}

// annotate writes the annotation with a time to an object that must have the UID of the reference.
func (c *cellClients) annotate(ctx context.Context, namespace string, object metav1.OwnerReference, at time.Time) error {
	objects, err := c.resourceClient(namespace, object)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.UID, "annotations": map[string]string{v1alpha1.AnnotationNudgedAt: at.UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// resourceClient returns a metadata client for the resource of an object's kind, in a namespace unless the kind is cluster-scoped.
func (c *cellClients) resourceClient(namespace string, object metav1.OwnerReference) (metadata.ResourceInterface, error) {
	version, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := c.mapper.RESTMapping(schema.GroupKind{Group: version.Group, Kind: object.Kind}, version.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.metadata.Resource(mapping.Resource), nil
	}
	return c.metadata.Resource(mapping.Resource).Namespace(namespace), nil
}

// isOwnerDeleted reports whether the owner of a pod was deleted, or waits for its pods to be deleted.
func (c *cellClients) isOwnerDeleted(ctx context.Context, namespace string, owner metav1.OwnerReference) (bool, error) {
	objects, err := c.resourceClient(namespace, owner)
	if err != nil {
		return false, err
	}
	found, err := objects.Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return found.UID != owner.UID || found.DeletionTimestamp != nil && slices.Contains(found.Finalizers, metav1.FinalizerDeleteDependents), nil
}
