package keeper

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// rememberingBrake decides like the real one after the quiet period: it holds what was once a cascade.
type rememberingBrake struct{ cascade bool }

func (b *rememberingBrake) Decide(_ context.Context, request brake.Request) (brake.Answer, error) {
	b.cascade = b.cascade || request.Cascade != ""
	if b.cascade {
		return brake.Answer{Verdict: brake.Held, Retry: 1}, nil
	}
	return brake.Answer{Verdict: brake.Granted}, nil
}

// A user forces the end of a stuck CRD by removing its finalizer, and applies it again: the objects are in etcd still, and terminating.
func TestProtectorDeletedWithItsCRDStaysAfterTheCRDReturns(t *testing.T) {
	now := metav1.Now()
	terminating := newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.DeletionTimestamp, p.Spec.MinAvailable = &now, v1alpha1.Pods(3) })
	crd := newCRD(&now)
	r := newReconciler(t, terminating, crd)
	r.Brake = &rememberingBrake{}
	if p := r.reconcileAndGet(t); p == nil {
		t.Fatal("released while its CRD is being deleted")
	}
	crd.Finalizers = nil
	if err := r.Client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Create(t.Context(), newCRD(nil)); err != nil {
		t.Fatal(err)
	}
	if p := r.reconcileAndGet(t); p == nil {
		t.Error("the protector was released, although no client has deleted it: its CRD was deleted")
	}
}

// What a terminating protector waits for is not wanted of the recreated one, which does not terminate.
func TestRecreatedProtectorHasNoDeletionPending(t *testing.T) {
	now := metav1.Now()
	last := newHeldProtector("a", func(p *v1alpha1.PodProtector) {
		p.DeletionTimestamp, p.Spec.MinAvailable = &now, v1alpha1.Pods(3)
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLimitExceeded,
			Message: "PodProtector web was deleted, which would release the floor of 3. The floor stays in force",
		})
	})
	r := newReconciler(t)
	r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: last})
	var p *v1alpha1.PodProtector
	for range 6 { // recreate, restore the status, forget the records, and nothing more
		p = r.reconcileAndGet(t)
	}
	pending, isPending := brake.PendingOf(p)
	if p.DeletionTimestamp == nil && isPending {
		t.Errorf("deletionTimestamp nil, and yet pending for good: %+v (annotations %v)", pending, p.Annotations)
	}
}
