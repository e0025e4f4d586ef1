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
	d := newDesk(t, policy())
	at := time.Unix(1000, 0)
	d.tally.now = func() time.Time { return at }
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
	got := d.tally.take(ref)
	if got.clash == "" {
		t.Error("it is not told what contradicted it")
	}
	got.clash = ""
	want := count{matched: 3, injected: 1, conflicts: 1, lastInjected: at}
	if got != want {
		t.Errorf("count %+v, want %+v", got, want)
	}
	if again := d.tally.take(ref); again != (count{}) {
		t.Errorf("count %+v is taken twice", again)
	}
	d.policies.put("core", policy(rejecting, func(s *v1alpha1.PodSchedulingPolicySpec) { s.NodeSelector["cpu"] = "new" }))
	d.policies.rebuild()
	review(`{"spec":{"nodeSelector":{"disk":"hdd"}}}`, false)
	d.tally.putBack(ref, want)
	if got := d.tally.take(ref); got.matched != 4 || got.injected != 1 || got.conflicts != 2 || got.rejected != 1 || got.lastInjected != at {
		t.Errorf("count %+v of what was put back and a refusal", got)
	}
	d.tally.putBack(ref, want)
	d.tally.keep("core", nil)
	if got := d.tally.take(ref); got != (count{}) {
		t.Errorf("count %+v of a policy that is gone", got)
	}
}

func TestNewsAreToldOnce(t *testing.T) {
	status := &v1alpha1.PodSchedulingPolicyStatus{Matched: 5, Injected: 2}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidSelector, Message: errors.New("odd").Error(), ObservedGeneration: 3}
	if (news{}).tell(status, 3) {
		t.Error("nothing is news")
	}
	if !(news{ready: &ready}).tell(status, 3) || status.ObservedGeneration != 3 {
		t.Errorf("status %+v of a generation that is known for the first time", status)
	}
	if (news{ready: &ready}).tell(status, 3) {
		t.Error("what is known is told again")
	}
	if !(news{count: count{matched: 1, conflicts: 1, clash: "disk"}, ready: &ready}).tell(status, 3) || !isConflicting(status) {
		t.Errorf("status %+v after a conflict", status)
	}
	if diff := cmp.Diff([4]int64{6, 2, 1, 0}, [4]int64{status.Matched, status.Injected, status.Conflicts, status.Rejected}); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestAPolicyIsConflictingUntilAllIsQuiet(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &silences{now: func() time.Time { return now }, of: map[scheduling.Ref]silence{}}
	status, ref := &v1alpha1.PodSchedulingPolicyStatus{}, scheduling.Ref{Name: "a"}
	news{count: count{matched: 1, conflicts: 1}}.tell(status, 1)
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
	if !(news{quiet: true}).tell(status, 1) || isConflicting(status) {
		t.Errorf("status %+v, want it not to be conflicting any more", status)
	}
	if s.isQuiet(ref, status); len(s.of) > 0 {
		t.Error("the silence of a policy that is not conflicting is kept")
	}
}
