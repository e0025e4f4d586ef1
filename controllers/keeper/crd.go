package keeper

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const crdName = "podprotectors.breakwater.dev"

// isCRDDeleted reports whether the CRD of protectors is being deleted. The API server then deletes every protector, although no client
// requested the deletion of any of them. If the state cannot be determined, it returns an error, so that protectors stay.
func (r *Reconciler) isCRDDeleted(ctx context.Context) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := r.Live.Get(ctx, client.ObjectKey{Name: crdName}, crd)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil // an aggregated API server has kinds without CRDs
	}
	if err != nil {
		return false, fmt.Errorf("get the CustomResourceDefinition %s: %w", crdName, err)
	}
	return crd.DeletionTimestamp != nil, nil
}

// reportKindDeleted keeps a protector in force that is being deleted with its kind, and emits an event.
func (r *Reconciler) reportKindDeleted(ctx context.Context, p *v1alpha1.PodProtector) {
	log.FromContext(ctx).Info("Held PodProtector because its CustomResourceDefinition is being deleted", "protector", klog.KObj(p))
	r.Events.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ReasonKindDeleted, "Hold", "The CustomResourceDefinition %s is being "+
		"deleted, and this PodProtector with it. It stays in force. If its pods no longer need protection, release it "+
		"with breakwater release.", crdName)
}
