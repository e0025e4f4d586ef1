// Package keeper keeps protectors. It puts a finalizer on each protector that was not generated. A protector that disappears without a
// deletion request is therefore known to have vanished. The keeper recreates vanished protectors with their reservations.
package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Name is the name of the controller and of its field manager.
const Name = "breakwater-keeper"

// Reconciler keeps one protector.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. The keeper uses it before each step that could go wrong permanently if the cache lags.
	Live   client.Reader
	Events events.EventRecorder
	Losses *Losses
	// Brake holds back the release of many protectors at once; nil grants each release at once.
	Brake Brake

	metrics *metrics
}

// Brake holds back large decreases of floors (rule 13).
type Brake interface {
	// Decide decides whether a protector may be released now. If it may not, Decide records that in the protector's conditions.
	Decide(ctx context.Context, request brake.Request) (brake.Answer, error)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.PodProtector{}
	err := r.Client.Get(ctx, request.NamespacedName, p)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("get PodProtector: %w", err)
	}
	isHeld := slices.Contains(p.Finalizers, v1alpha1.FinalizerHold)
	switch {
	case err != nil && r.Losses.Has(request.NamespacedName):
		err = r.restore(ctx, request.NamespacedName)
	case err == nil && quota.IsRestorePending(p): // also if it was deleted: it may stay in force for long
		err = r.restoreStatus(ctx, p)
	case err == nil && p.DeletionTimestamp != nil && isHeld:
		var wait time.Duration
		if wait, err = r.release(ctx, p); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, err
		}
	case err == nil && p.DeletionTimestamp == nil && !policy.IsGenerated(p) && !isHeld:
		err = r.addFinalizer(ctx, p)
	case err == nil && r.Losses.Has(request.NamespacedName):
		err = r.forgetLoss(ctx, p)
	case err == nil && carriesRecords(p):
		err = r.dropCarriedRecords(ctx, p)
	default:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: clusters.RecheckInterval}, err
}

func (r *Reconciler) addFinalizer(ctx context.Context, p *v1alpha1.PodProtector) error {
	err := clusters.AddFinalizer(ctx, r.Client, v1alpha1.GroupVersion.WithKind("PodProtector"), p, v1alpha1.FinalizerHold, Name)
	if isOutdated(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	log.FromContext(ctx).Info("Added finalizer to PodProtector", "protector", klog.KObj(p), "finalizer", v1alpha1.FinalizerHold)
	return nil
}

// release removes the finalizer from a protector whose deletion was requested, if the brake grants it. It records the release first. If the
// brake holds the release, the caller retries after wait. The cache may show a deletion that never happened, because the core may have been
// restored to a state before it.
func (r *Reconciler) release(ctx context.Context, cached *v1alpha1.PodProtector) (wait time.Duration, err error) {
	p := &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), p); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if p.UID != cached.UID || p.DeletionTimestamp == nil || !slices.Contains(p.Finalizers, v1alpha1.FinalizerHold) {
		return 0, nil // the object has changed, and an event will follow
	}
	crdDeleted, err := r.isCRDDeleted(ctx)
	if err != nil {
		return 0, err
	}
	if crdDeleted {
		r.reportKindDeleted(ctx, p)
		_, err := r.decideRelease(ctx, p, "its CustomResourceDefinition is being deleted") // the brake remembers it, also after the CRD exists again
		return 0, err
	}
	if wait, err := r.decideRelease(ctx, p, ""); err != nil || wait > 0 {
		return wait, err
	}
	if err := clusters.RecordRelease(ctx, r.Client, p, Name); err != nil {
		return 0, err
	}
	err = clusters.DropFinalizer(ctx, r.Client, p, v1alpha1.FinalizerHold, Name)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("remove the finalizer: %w", err)
	}
	log.FromContext(ctx).Info("Released PodProtector", "protector", klog.KObj(p))
	return 0, nil
}

// decideRelease asks the brake whether a protector may be released; it may if wait is 0. cascade is why its deletion is known to be a cascade; empty if that is
// not known.
func (r *Reconciler) decideRelease(ctx context.Context, p *v1alpha1.PodProtector, cascade string) (wait time.Duration, err error) {
	effect, large := brake.DescribeRelease(p)
	if r.Brake == nil || !large {
		return 0, nil
	}
	answer, err := r.Brake.Decide(ctx, brake.Request{
		Protector: p, Deleted: p, Cause: fmt.Sprintf("PodProtector %s was deleted", p.Name), Cascade: cascade, Effect: effect,
	})
	if err != nil {
		return 0, fmt.Errorf("decide on a large decrease: %w", err)
	}
	if answer.Verdict == brake.Granted {
		return 0, nil
	}
	return max(answer.Retry, time.Millisecond), nil
}

// isOutdated reports whether a write failed because the object is not what the cache shows. An event will follow.
func isOutdated(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}
