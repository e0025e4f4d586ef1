package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func newHeldProtector(uid types.UID, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: uid, Finalizers: []string{v1alpha1.FinalizerHold},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	losses := NewLosses()
	m := newMetrics(prometheus.NewRegistry(), losses)
	c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{}).WithObjects(objects...).Build()
	return &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(100), Losses: losses, metrics: m}
}

func (r *Reconciler) reconcileAndGet(t *testing.T) *v1alpha1.PodProtector {
	t.Helper()
	key := client.ObjectKeyFromObject(newHeldProtector(""))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.PodProtector{}
	if err := r.Live.Get(t.Context(), key, p); err != nil {
		return nil
	}
	return p
}

func TestRecordIgnoresReleasedProtectors(t *testing.T) {
	for claim, c := range map[string]struct {
		last *v1alpha1.PodProtector
		want bool
	}{
		"a protector with the finalizer of the keeper":       {newHeldProtector("a"), true},
		"a protector with the finalizer of the generator":    {newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{v1alpha1.FinalizerProtector} }), true},
		"no protector whose deletion was requested":          {newHeldProtector("a", func(p *v1alpha1.PodProtector) { now := metav1.Now(); p.DeletionTimestamp = &now }), false},
		"no protector whose finalizer was removed":           {newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.Finalizers = nil }), false},
		"no protector with only finalizers of other clients": {newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{"example.com/hold"} }), false},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t)
			r.Losses.handler().OnDelete(c.last)
			if p := r.reconcileAndGet(t); (p != nil) != c.want {
				t.Errorf("protector was recreated: %+v", p)
			}
		})
	}
}

func TestProtectorReleasedWhileUnwatchedIsNotRecreated(t *testing.T) {
	r := newReconciler(t)
	if err := clusters.RecordRelease(t.Context(), r.Client, newHeldProtector("a"), Name); err != nil {
		t.Fatal(err)
	}
	r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: newHeldProtector("a")})
	if p := r.reconcileAndGet(t); p != nil || r.Losses.count() != 0 {
		t.Errorf("protector was recreated: %+v; %d losses are remembered", p, r.Losses.count())
	}
	// The keeper recreates another protector of the same name that was not released.
	r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: newHeldProtector("b")})
	if p := r.reconcileAndGet(t); p == nil {
		t.Error("protector was not recreated")
	}
}

// A core may be restored to a state before the deletion that the watch has shown, and lose the protector before the watch continues (simulation, 7002262).
func TestTerminatingProtectorThatVanishedUnwatchedIsRecreatedUnlessItWasReleased(t *testing.T) {
	terminating := newHeldProtector("a", func(p *v1alpha1.PodProtector) { now := metav1.Now(); p.DeletionTimestamp = &now })
	for _, released := range []bool{false, true} {
		r := newReconciler(t)
		if released {
			if err := clusters.RecordRelease(t.Context(), r.Client, terminating, Name); err != nil {
				t.Fatal(err)
			}
		}
		r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: terminating})
		if p := r.reconcileAndGet(t); (p == nil) != released || p != nil && p.DeletionTimestamp != nil {
			t.Errorf("released %v: got %+v, want it recreated unless it was released", released, p)
		}
	}
}

func TestProtectorCreatedByAnotherClientIsNotChanged(t *testing.T) {
	r := newReconciler(t, newHeldProtector("b"))
	r.Losses.handler().OnDelete(newHeldProtector("a"))
	r.Losses.handler().OnAdd(newHeldProtector("b"), false)
	if p := r.reconcileAndGet(t); p.UID != "b" || len(p.Annotations) > 0 || r.Losses.count() != 0 {
		t.Errorf("got %+v; %d losses are remembered", p, r.Losses.count())
	}
}

func TestUnfinishedProtectorGetsRememberedReservations(t *testing.T) {
	reserved := newHeldProtector("a", func(p *v1alpha1.PodProtector) {
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "c", AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{Counter: 1, PodUID: "uid-1"}}}}}
	})
	unfinished := func(lostUID string) *v1alpha1.PodProtector {
		return newHeldProtector("b", func(p *v1alpha1.PodProtector) {
			p.Annotations = map[string]string{v1alpha1.AnnotationRestored: lostUID}
		})
	}
	for claim, c := range map[string]struct {
		lostUID string
		lose    []*v1alpha1.PodProtector
		want    int
	}{
		"the reservations, after a loss":                          {"a", []*v1alpha1.PodProtector{reserved}, 1},
		"the reservations, after a second loss before completion": {"a", []*v1alpha1.PodProtector{reserved, unfinished("a")}, 1},
		"no reservations after a restart":                         {"a", nil, 0},
		"no reservations of another protector":                    {"", []*v1alpha1.PodProtector{reserved}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t, unfinished(c.lostUID))
			for _, last := range c.lose {
				r.Losses.handler().OnDelete(last)
			}
			p := r.reconcileAndGet(t)
			if quota.IsRestorePending(p) || quota.BudgetOf(p).Reserved != c.want {
				t.Errorf("got %+v, want it completed with %d reservations", p, c.want)
			}
		})
	}
}

// The generator keeps such a protector in force for as long as its source exists. Until it is finished it denies all removals.
func TestUnfinishedProtectorIsCompletedAfterDeletion(t *testing.T) {
	r := newReconciler(t, newHeldProtector("b", func(p *v1alpha1.PodProtector) {
		now := metav1.Now()
		p.DeletionTimestamp, p.Finalizers = &now, []string{v1alpha1.FinalizerProtector}
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "a"}
	}))
	if p := r.reconcileAndGet(t); p == nil || quota.IsRestorePending(p) {
		t.Errorf("got %+v, want it completed", p)
	}
}

func TestProtectorDeletedWithCRDIsHeld(t *testing.T) {
	now := metav1.Now()
	deleted := newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.DeletionTimestamp = &now })
	for claim, test := range map[string]struct {
		crd  *metav1.PartialObjectMetadata
		held bool
	}{
		"a deleted protector is released":                               {newCRD(nil), false},
		"a protector whose CRD is being deleted stays":                  {newCRD(&now), true},
		"a deleted protector of an API server without CRDs is released": {nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			objects := []client.Object{deleted.DeepCopy()}
			if test.crd != nil {
				objects = append(objects, test.crd)
			}
			r := newReconciler(t, objects...)
			if p := r.reconcileAndGet(t); (p != nil) != test.held {
				t.Errorf("got protector %+v, want none unless its CRD is being deleted", p)
			}
			hasEvent := len(r.Events.(*events.FakeRecorder).Events) > 0
			if hasEvent != test.held {
				t.Errorf("got an event: %v, want one only if the CRD is being deleted", hasEvent)
			}
		})
	}
}

// newCRD returns the CRD of protectors.
func newCRD(deleted *metav1.Time) *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.Name, crd.DeletionTimestamp = crdName, deleted
	if deleted != nil {
		crd.Finalizers = []string{"customresourcecleanup.apiextensions.k8s.io"}
	}
	return crd
}

func TestLossIsForgottenWhenProtectorIsComplete(t *testing.T) {
	recreated := newHeldProtector("b", func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "a"}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue}}
	})
	for claim, existing := range map[string]*v1alpha1.PodProtector{
		"the earlier protector, in a restored core": newHeldProtector("a"), "recreated by a write whose response was lost": recreated,
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t, existing)
			r.Losses.handler().OnDelete(newHeldProtector("a"))
			r.Losses.handler().OnAdd(existing, false)
			if p := r.reconcileAndGet(t); p.UID != existing.UID || r.Losses.count() != 0 {
				t.Errorf("got %+v; %d losses are remembered", p, r.Losses.count())
			}
		})
	}
}

// pendingRelease returns the conditions of a protector whose source a cascade deleted.
func pendingRelease() []metav1.Condition {
	at := metav1.Unix(1000, 0)
	return []metav1.Condition{
		{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCascade, LastTransitionTime: at,
			Message: "Deployment web was deleted",
		},
		{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourceDeleted, LastTransitionTime: at},
	}
}

// Without the record no confirmation would find the release, which a user may have waited for.
func TestRecreatedProtectorKeepsPendingRelease(t *testing.T) {
	vanished := newHeldProtector("a", func(p *v1alpha1.PodProtector) { p.Status.Conditions = pendingRelease() })
	for claim, c := range map[string]struct {
		// ends is how many processes end after they recreate it and before they restore its status; lost means that it vanishes each time.
		ends int
		lost bool
	}{
		"when one process recreates it":                       {0, false},
		"when the process ends before the status is written":  {1, false},
		"when it vanishes again before the status is written": {2, true},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t)
			r.Losses.Record(vanished, false)
			p := r.reconcileAndGet(t)
			for i := range c.ends {
				p.UID = types.UID(fmt.Sprint("recreated-", i)) // the API server of this test assigns no UID
				r = newReconciler(t, p)
				if c.lost {
					r = newReconciler(t)
					r.Losses.Record(p, false)
					p = r.reconcileAndGet(t)
				}
			}
			p = r.reconcileAndGet(t)
			for _, want := range pendingRelease() {
				got := meta.FindStatusCondition(p.Status.Conditions, want.Type)
				if got == nil || got.Status != want.Status || got.Reason != want.Reason || !got.LastTransitionTime.Equal(&want.LastTransitionTime) {
					t.Errorf("condition %s = %v, want %v", want.Type, got, want)
				}
			}
			if _, carries := r.reconcileAndGet(t).Annotations[v1alpha1.AnnotationRestoredDecrease]; carries {
				t.Errorf("annotation %s exists, want it removed", v1alpha1.AnnotationRestoredDecrease)
			}
		})
	}
}

// A protector whose decrease was withdrawn has no pending decrease, regardless of what its metadata carried before.
func TestRecreatedProtectorDropsWithdrawnDecrease(t *testing.T) {
	record, err := json.Marshal(pendingRelease())
	if err != nil {
		t.Fatal(err)
	}
	r := newReconciler(t)
	r.Losses.Record(newHeldProtector("a", func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestoredDecrease: string(record)}
	}), false)
	p := newReconciler(t, r.reconcileAndGet(t)).reconcileAndGet(t)
	if quota.IsRestorePending(p) || meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending) != nil {
		t.Errorf("got the conditions %+v, want nothing pending", p.Status.Conditions)
	}
}

// A recreated protector that has its status vanishes too, before the keeper has forgotten the first loss. It has reservations that the first one lacks.
func TestSecondLossHasTheStateOfTheRecreatedProtector(t *testing.T) {
	losses := NewLosses()
	losses.Record(newHeldProtector("a"), false)
	losses.Record(newRecreatedProtector("b", metav1.ConditionTrue), false)
	if lost, _ := losses.get(client.ObjectKeyFromObject(newHeldProtector(""))); lost.last.UID != "b" {
		t.Errorf("the remembered state is that of protector %q, want that of b, which is later", lost.last.UID)
	}
	losses.Record(newRecreatedProtector("c", metav1.ConditionFalse, "b"), false)
	if lost, _ := losses.get(client.ObjectKeyFromObject(newHeldProtector(""))); lost.last.UID != "b" || lost.vanished.UID != "c" {
		t.Errorf("the remembered state is that of protector %q, want that of b: c had no status yet", lost.last.UID)
	}
}

// newRecreatedProtector returns a protector that was recreated in place of another one, a unless given, with its status if restored is true.
func newRecreatedProtector(uid types.UID, restored metav1.ConditionStatus, of ...string) *v1alpha1.PodProtector {
	return newHeldProtector(uid, func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: append(of, "a")[0]}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestored, Status: restored}}
	})
}

// A protector vanishes again while the keeper completes it, or forgets its loss: the keeper must forget the loss that it has remedied, not this one.
func TestLossDuringReconciliationIsKept(t *testing.T) {
	for claim, c := range map[string]struct {
		existing *v1alpha1.PodProtector
		// vanished is what the watch last showed of it.
		vanished *v1alpha1.PodProtector
	}{
		"while its status is restored":          {newRecreatedProtector("b", metav1.ConditionFalse), newRecreatedProtector("b", metav1.ConditionFalse)},
		"while its status is restored, shown":   {newRecreatedProtector("b", metav1.ConditionFalse), newRecreatedProtector("b", metav1.ConditionTrue)},
		"when it was recreated":                 {newRecreatedProtector("b", metav1.ConditionTrue), newRecreatedProtector("b", metav1.ConditionTrue)},
		"when a restore of the core brought it": {newHeldProtector("a"), newHeldProtector("a")},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t, c.existing)
			r.Losses.Record(newHeldProtector("a"), false)
			r.Losses.handler().OnAdd(c.existing, false)
			vanish := func() { r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: c.vanished}) }
			read := func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := w.Get(ctx, key, object, options...)
				if !quota.IsRestorePending(c.existing) {
					vanish()
				}
				return err
			}
			write := func(ctx context.Context, w client.Client, of string, object client.Object, options ...client.SubResourceUpdateOption) error {
				defer vanish()
				return w.SubResource(of).Update(ctx, object, options...)
			}
			live := r.Client.(client.WithWatch)
			r.Live = interceptor.NewClient(live, interceptor.Funcs{Get: read})
			r.Client = interceptor.NewClient(live, interceptor.Funcs{SubResourceUpdate: write})
			key := client.ObjectKeyFromObject(c.existing)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if !r.Losses.Has(key) {
				t.Error("the keeper has forgotten a loss that it has not remedied")
			}
		})
	}
}
