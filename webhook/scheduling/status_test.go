package scheduling

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

func TestReviewsAreCountedOnceForEachPolicy(t *testing.T) {
	d := newHandlerFixture(t, policy())
	at := time.Unix(1000, 0)
	d.counts.now = func() time.Time { return at }
	review := func(object string, dry bool) {
		request := creation(podKind, object)
		request.DryRun = &dry
		d.Review(t.Context(), "worker-1", request)
	}
	review(`{"spec":{}}`, false)
	review(`{"spec":{"nodeSelector":{"disk":"ssd"}}}`, false)
	review(`{"spec":{"nodeSelector":{"disk":"hdd"}}}`, false)
	review(`{"spec":{}}`, true)
	ref := scheduling.Ref{Core: "core", Namespace: "shop", Name: "ssd"}
	got := d.counts.pop(ref)
	if got.conflict == "" {
		t.Error("the count does not describe the conflict")
	}
	got.conflict = ""
	want := count{matched: 3, injected: 1, conflicts: 1, lastInjected: at}
	if got != want {
		t.Errorf("count %+v, want %+v", got, want)
	}
	if again := d.counts.pop(ref); again != (count{}) {
		t.Errorf("count %+v after pop(), want it empty", again)
	}
	d.policies.put("core", policy(rejecting, func(s *v1alpha1.PodSchedulingPolicySpec) { s.NodeSelector["cpu"] = "new" }))
	d.policies.rebuild()
	review(`{"spec":{"nodeSelector":{"disk":"hdd"}}}`, false)
	d.counts.restore(ref, want)
	if got := d.counts.pop(ref); got.matched != 4 || got.injected != 1 || got.conflicts != 2 || got.rejected != 1 || got.lastInjected != at {
		t.Errorf("count %+v of a restored count and a refusal", got)
	}
	d.counts.restore(ref, want)
	d.counts.retain("core", nil)
	if got := d.counts.pop(ref); got != (count{}) {
		t.Errorf("count %+v of a deleted policy, want it empty", got)
	}
}

func TestStatusUpdateIsAppliedOnce(t *testing.T) {
	status := &v1alpha1.PodSchedulingPolicyStatus{Matched: 5, Injected: 2}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidSelector, Message: errors.New("odd").Error(), ObservedGeneration: 3}
	if (statusUpdate{}).applyTo(status, 3) {
		t.Error("the status did not change, want a change")
	}
	if !(statusUpdate{ready: &ready}).applyTo(status, 3) || status.ObservedGeneration != 3 {
		t.Errorf("status %+v of a new generation", status)
	}
	if (statusUpdate{ready: &ready}).applyTo(status, 3) {
		t.Error("the status changed again, want no change")
	}
	if !(statusUpdate{count: count{matched: 1, conflicts: 1, conflict: "disk"}, ready: &ready}).applyTo(status, 3) || !isConflicting(status) {
		t.Errorf("status %+v after a conflict", status)
	}
	if diff := cmp.Diff([4]int64{6, 2, 1, 0}, [4]int64{status.Matched, status.Injected, status.Conflicts, status.Rejected}); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestConflictingConditionClearsAfterQuietPeriod(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &quietTracker{now: func() time.Time { return now }, entries: map[scheduling.Ref]quietEntry{}}
	status, ref := &v1alpha1.PodSchedulingPolicyStatus{}, scheduling.Ref{Name: "a"}
	statusUpdate{count: count{matched: 1, conflicts: 1}}.applyTo(status, 1)
	for _, step := range []struct {
		after     time.Duration
		conflicts int64
		quiet     bool
	}{
		{0, 1, false}, {9 * time.Minute, 1, false}, {time.Minute / 2, 2, false}, {9 * time.Minute, 2, false}, {time.Minute, 2, true},
	} {
		now, status.Conflicts = now.Add(step.after), step.conflicts
		if got := s.isQuiet(ref, status); got != step.quiet {
			t.Fatalf("quiet %v at %s, want %v", got, now, step.quiet)
		}
	}
	if !(statusUpdate{quiet: true}).applyTo(status, 1) || isConflicting(status) {
		t.Errorf("status %+v, want condition Conflicting false", status)
	}
	if s.isQuiet(ref, status); len(s.entries) > 0 {
		t.Error("a policy without conflicts is still tracked")
	}
}
