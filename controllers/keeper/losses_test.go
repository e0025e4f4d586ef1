package keeper

import (
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func held(uid types.UID, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
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
	m, err := newMetrics(prometheus.NewRegistry(), losses)
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{}).WithObjects(objects...).Build()
	return &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(100), Losses: losses, metrics: m}
}

func (r *Reconciler) now(t *testing.T) *v1alpha1.PodProtector {
	t.Helper()
	key := client.ObjectKeyFromObject(held(""))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.PodProtector{}
	if err := r.Live.Get(t.Context(), key, p); err != nil {
		return nil
	}
	return p
}

func TestWhatIsTakenForALoss(t *testing.T) {
	for claim, c := range map[string]struct {
		last *v1alpha1.PodProtector
		want bool
	}{
		"a protector that was held":             {held("a"), true},
		"one that the generator held":           {held("a", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{v1alpha1.FinalizerProtector} }), true},
		"not one whose deletion was asked for":  {held("a", func(p *v1alpha1.PodProtector) { now := metav1.Now(); p.DeletionTimestamp = &now }), false},
		"not one whose finalizer was taken off": {held("a", func(p *v1alpha1.PodProtector) { p.Finalizers = nil }), false},
		"not one that others hold":              {held("a", func(p *v1alpha1.PodProtector) { p.Finalizers = []string{"example.com/hold"} }), false},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t)
			r.Losses.handler().OnDelete(c.last)
			if p := r.now(t); (p != nil) != c.want {
				t.Errorf("made anew: %+v", p)
			}
		})
	}
}

func TestAProtectorThatWasReleasedWhileNobodyWatchedIsNotMadeAnew(t *testing.T) {
	r := newReconciler(t)
	if err := clusters.NoteRelease(t.Context(), r.Client, held("a"), Name); err != nil {
		t.Fatal(err)
	}
	r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: held("a")})
	if p := r.now(t); p != nil || r.Losses.number() != 0 {
		t.Errorf("made anew: %+v; %d losses are remembered", p, r.Losses.number())
	}
	// The keeper recreates another protector of the same name that was not released.
	r.Losses.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: held("b")})
	if p := r.now(t); p == nil {
		t.Error("not made anew")
	}
}

func TestAProtectorThatSomebodyElseHasMadeIsLeftAlone(t *testing.T) {
	r := newReconciler(t, held("b"))
	r.Losses.handler().OnDelete(held("a"))
	r.Losses.handler().OnAdd(held("b"), false)
	if p := r.now(t); p.UID != "b" || len(p.Annotations) > 0 || r.Losses.number() != 0 {
		t.Errorf("%+v; %d losses are remembered", p, r.Losses.number())
	}
}

func TestAnUnfinishedProtectorIsFinishedWithWhatIsKnown(t *testing.T) {
	reserved := held("a", func(p *v1alpha1.PodProtector) {
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "c", AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{Counter: 1, PodUID: "uid-1"}}}}}
	})
	unfinished := func(of string) *v1alpha1.PodProtector {
		return held("b", func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: of} })
	}
	for claim, c := range map[string]struct {
		of   string
		lose []*v1alpha1.PodProtector
		want int
	}{
		"all of it":                           {"a", []*v1alpha1.PodProtector{reserved}, 1},
		"all of it when it was lost half way": {"a", []*v1alpha1.PodProtector{reserved, unfinished("a")}, 1},
		"nothing after a restart":             {"a", nil, 0},
		"nothing when it was of another":      {"", []*v1alpha1.PodProtector{reserved}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t, unfinished(c.of))
			for _, last := range c.lose {
				r.Losses.handler().OnDelete(last)
			}
			p := r.now(t)
			if quota.Unfinished(p) || quota.BudgetOf(p).Reserved != c.want {
				t.Errorf("%+v, want it finished with %d reservations", p, c.want)
			}
		})
	}
}

// The generator keeps such a protector in force for as long as its source exists. Until it is finished it denies all removals.
func TestAnUnfinishedProtectorIsFinishedAlsoWhenItWasDeleted(t *testing.T) {
	r := newReconciler(t, held("b", func(p *v1alpha1.PodProtector) {
		now := metav1.Now()
		p.DeletionTimestamp, p.Finalizers = &now, []string{v1alpha1.FinalizerProtector}
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "a"}
	}))
	if p := r.now(t); p == nil || quota.Unfinished(p) {
		t.Errorf("%+v, want it finished", p)
	}
}

func TestAProtectorThatIsDeletedWithItsKindStays(t *testing.T) {
	now := metav1.Now()
	going := held("a", func(p *v1alpha1.PodProtector) { p.DeletionTimestamp = &now })
	for claim, test := range map[string]struct {
		crd  *metav1.PartialObjectMetadata
		held bool
	}{
		"one that was deleted goes":                    {kind(nil), false},
		"one whose kind is being deleted stays":        {kind(&now), true},
		"one of an apiserver without definitions goes": {nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			objects := []client.Object{going.DeepCopy()}
			if test.crd != nil {
				objects = append(objects, test.crd)
			}
			r := newReconciler(t, objects...)
			if p := r.now(t); (p != nil) != test.held {
				t.Errorf("the protector is %+v", p)
			}
			told := len(r.Events.(*events.FakeRecorder).Events) > 0
			if told != test.held {
				t.Errorf("an event: %v", told)
			}
		})
	}
}

// kind returns the CRD of protectors.
func kind(deleted *metav1.Time) *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.Name, crd.DeletionTimestamp = definition, deleted
	if deleted != nil {
		crd.Finalizers = []string{"customresourcecleanup.apiextensions.k8s.io"}
	}
	return crd
}

func TestALossIsOverWhenTheProtectorIsThereAndWhole(t *testing.T) {
	anew := held("b", func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "a"}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue}}
	})
	for claim, there := range map[string]*v1alpha1.PodProtector{
		"as it was, since its core was restored": held("a"), "made anew, by a write whose answer was lost": anew,
	} {
		t.Run(claim, func(t *testing.T) {
			r := newReconciler(t, there)
			r.Losses.handler().OnDelete(held("a"))
			r.Losses.handler().OnAdd(there, false)
			if p := r.now(t); p.UID != there.UID || r.Losses.number() != 0 {
				t.Errorf("%+v; %d losses are remembered", p, r.Losses.number())
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
func TestAProtectorThatVanishedKeepsThatItsReleaseIsPending(t *testing.T) {
	vanished := held("a", func(p *v1alpha1.PodProtector) { p.Status.Conditions = pendingRelease() })
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
			r.Losses.Note(vanished)
			p := r.now(t)
			for i := range c.ends {
				p.UID = types.UID(fmt.Sprint("recreated-", i)) // the API server of this test assigns no UID
				r = newReconciler(t, p)
				if c.lost {
					r = newReconciler(t)
					r.Losses.Note(p)
					p = r.now(t)
				}
			}
			p = r.now(t)
			for _, want := range pendingRelease() {
				got := meta.FindStatusCondition(p.Status.Conditions, want.Type)
				if got == nil || got.Status != want.Status || got.Reason != want.Reason || !got.LastTransitionTime.Equal(&want.LastTransitionTime) {
					t.Errorf("condition %s is %v, want %v", want.Type, got, want)
				}
			}
			if _, carries := r.now(t).Annotations[v1alpha1.AnnotationRestoredDecrease]; carries {
				t.Errorf("the annotation %s is still there, want it removed", v1alpha1.AnnotationRestoredDecrease)
			}
		})
	}
}

// A protector whose decrease was withdrawn has no pending decrease, regardless of what its metadata carried before.
func TestAProtectorThatVanishedDoesNotKeepAnEarlierRecord(t *testing.T) {
	record, err := json.Marshal(pendingRelease())
	if err != nil {
		t.Fatal(err)
	}
	r := newReconciler(t)
	r.Losses.Note(held("a", func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestoredDecrease: string(record)}
	}))
	p := newReconciler(t, r.now(t)).now(t)
	if quota.Unfinished(p) || meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending) != nil {
		t.Errorf("conditions %+v, want nothing pending", p.Status.Conditions)
	}
}
