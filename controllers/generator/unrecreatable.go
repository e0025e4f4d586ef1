package generator

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// findUnrecreatable returns the last state of a protector of a source that has vanished and cannot be recreated (rule 10), because its
// namespace is being deleted; nil if there is none. It returns an error while a protector is about to be recreated.
func (r *releaser) findUnrecreatable(ctx context.Context, ref policy.Ref) (*v1alpha1.PodProtector, error) {
	if r.losses == nil {
		return nil, nil
	}
	last, ok := r.losses.Find(func(last *v1alpha1.PodProtector) bool {
		return policy.BelongsTo(last, ref)
	})
	if !ok {
		return nil, nil
	}
	namespace := clusters.EmptyNamespace()
	if err := r.live.Get(ctx, client.ObjectKey{Name: ref.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("get the namespace from the API server: %w", err)
	}
	if namespace.DeletionTimestamp != nil {
		return last, nil
	}
	return nil, fmt.Errorf("PodProtector %s vanished and cannot be released until it is recreated", klog.KObj(last))
}

// releaseUnrecreatable releases the protectors of findUnrecreatable that may be released without a record in their status: those that a user has confirmed,
// and small ones. It reports whether none is left. Otherwise the source keeps its finalizer, and so its namespace stays.
func (r *releaser) releaseUnrecreatable(ctx context.Context, ref policy.Ref, source client.Object, cause releaseCause) (bool, error) {
	for {
		last, err := r.findUnrecreatable(ctx, ref)
		if err != nil || last == nil {
			return err == nil, err
		}
		verdict, err := r.decreases.decideRelease(ctx, ref, source, last, cause)
		if err != nil {
			return false, err
		}
		if verdict != brake.Granted {
			log.FromContext(ctx).Info("Held source of vanished PodProtector until a user confirms the deletion of its namespace",
				"protector", klog.KObj(last), "annotation", v1alpha1.AnnotationConfirmRelease)
			r.retries.retryAfter(ref, clusters.RecheckInterval) // no event of its namespace triggers a reconciliation
			return false, nil
		}
		if err := clusters.RecordRelease(ctx, r.client, last, Name); err != nil {
			return false, err
		}
		r.losses.Forget(last)
		log.FromContext(ctx).Info("Released vanished PodProtector", "protector", klog.KObj(last))
	}
}
