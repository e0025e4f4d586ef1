package aggregator

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/aggregator/conditions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// tooLong is after which time a rollout is not the reason any more.
const tooLong = 15 * time.Minute

type change = func(*v1alpha1.PodProtector)

// observedAt is when the protectors of these tests are observed.
var observedAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// countedCell returns a cell with available pods, of which its workloads expect some.
func countedCell(name string, available, expected int32, workloads ...v1alpha1.ExpectedWorkload) v1alpha1.PodProtectorCell {
	return v1alpha1.PodProtectorCell{CellID: name, Aggregation: v1alpha1.Aggregation{
		CountedReplicas: available, TotalReplicas: available, ExpectedReplicas: &expected, Workloads: workloads,
	}}
}

func expects(kind, name string, replicas int32) v1alpha1.ExpectedWorkload {
	return v1alpha1.ExpectedWorkload{Kind: kind, Name: name, Replicas: replicas}
}

// expectingProtector returns a protector with these cells, whose floor is one pod less than expected.
func expectingProtector(cells ...v1alpha1.PodProtectorCell) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 4}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MaxUnavailable = v1alpha1.Pods(1)
	p.Status.Cells = cells
	return p
}

// stored sets the stored condition, whose status began some time ago.
func stored(status metav1.ConditionStatus, reason string, ago time.Duration) change {
	return func(p *v1alpha1.PodProtector) {
		p.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionExpectationBelowPods, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(observedAt.Add(-ago)),
		}}
	}
}

func observing(ago time.Duration) change {
	return stored(metav1.ConditionUnknown, v1alpha1.ReasonObserving, ago)
}

func TestExpectationBelowPods(t *testing.T) {
	shards := countedCell("a", 3, 1, expects("Prometheus", "main", 1))
	const long = time.Hour
	for claim, c := range map[string]struct {
		cells   []v1alpha1.PodProtectorCell
		changes []change
		// want is the reason; empty for no condition.
		want string
		// since is how long ago the last transition was.
		since time.Duration
		words []string
	}{
		"as many pods as expected":                        {cells: []v1alpha1.PodProtectorCell{countedCell("a", 3, 3)}},
		"pods are missing":                                {cells: []v1alpha1.PodProtectorCell{countedCell("a", 1, 3)}},
		"more pods begin an observation":                  {cells: []v1alpha1.PodProtectorCell{shards}, want: v1alpha1.ReasonObserving, words: []string{"15 minutes"}},
		"a surge of one pod is observed":                  {cells: []v1alpha1.PodProtectorCell{countedCell("a", 4, 3)}, changes: []change{observing(time.Minute)}, want: v1alpha1.ReasonObserving, since: time.Minute},
		"twice as many pods for ten minutes are observed": {cells: []v1alpha1.PodProtectorCell{countedCell("a", 6, 3)}, changes: []change{observing(10 * time.Minute)}, want: v1alpha1.ReasonObserving, since: 10 * time.Minute},
		"more pods for a quarter of an hour": {
			cells: []v1alpha1.PodProtectorCell{shards}, changes: []change{observing(tooLong)}, want: v1alpha1.ReasonMorePodsThanExpected, since: tooLong,
			words: []string{"available (3)", "expected (1: Prometheus/main has 1 in cell a)", "computed from 1", "at most 0 of 3 pods", "set spec.expectedReplicas", "select only the pods"},
		},
		"true stays true, since the first excess": {
			cells: []v1alpha1.PodProtectorCell{shards}, changes: []change{stored(metav1.ConditionTrue, v1alpha1.ReasonMorePodsThanExpected, long)},
			want: v1alpha1.ReasonMorePodsThanExpected, since: long,
		},
		"a number that falls back ends the observation": {
			cells: []v1alpha1.PodProtectorCell{countedCell("a", 3, 3)}, changes: []change{observing(14 * time.Minute)}, want: v1alpha1.ReasonPodsExpected,
		},
		"a number that falls back ends the condition": {
			cells: []v1alpha1.PodProtectorCell{countedCell("a", 2, 3)}, changes: []change{stored(metav1.ConditionTrue, v1alpha1.ReasonMorePodsThanExpected, long)}, want: v1alpha1.ReasonPodsExpected,
		},
		"the next excess is observed from its own begin": {
			cells: []v1alpha1.PodProtectorCell{shards}, changes: []change{stored(metav1.ConditionFalse, v1alpha1.ReasonPodsExpected, long)}, want: v1alpha1.ReasonObserving,
		},
		"pods of one cell may exceed its own expectation": {cells: []v1alpha1.PodProtectorCell{countedCell("a", 4, 2), countedCell("b", 1, 3)}},
		"the cells and workloads are named": {
			cells: []v1alpha1.PodProtectorCell{
				countedCell("a", 4, 1, expects("Cluster", "db", 1)), countedCell("b", 4, 3, expects("StatefulSet", "db", 2), v1alpha1.ExpectedWorkload{Kind: "Rollout", Name: "old", Replicas: 1, Gone: true}),
			},
			changes: []change{observing(long)}, want: v1alpha1.ReasonMorePodsThanExpected, since: long,
			words: []string{"Cluster/db has 1 in cell a, StatefulSet/db has 2 in cell b, Rollout/old, which no longer exists, has 1 in cell b", "at most 3 of 8 pods"},
		},
		"the target is named": {
			cells: []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{
				CountedReplicas: 3, ExpectedReplicas: ptr.To(int32(1)), Target: &v1alpha1.Target{Replicas: 1},
			}}},
			changes: []change{observing(long), func(p *v1alpha1.PodProtector) {
				p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "example.com/v1", Kind: "Group", Name: "db"}
			}},
			want: v1alpha1.ReasonMorePodsThanExpected, since: long, words: []string{"(1: Group/db has 1 in cell a)"},
		},
		"spec.expectedReplicas is outdated": {
			cells:   []v1alpha1.PodProtectorCell{countedCell("a", 9, 0)},
			changes: []change{observing(long), func(p *v1alpha1.PodProtector) { p.Spec.ExpectedReplicas = ptr.To(int32(5)) }},
			want:    v1alpha1.ReasonMorePodsThanExpected, since: long, words: []string{"(5: spec.expectedReplicas)", "at most 4 of 9", "correct spec.expectedReplicas"},
		},
		"a floor that is a number does not depend on it": {
			cells: []v1alpha1.PodProtectorCell{shards},
			changes: []change{observing(long), func(p *v1alpha1.PodProtector) {
				p.Spec.MaxUnavailable, p.Spec.MinAvailable, p.Spec.ExpectedReplicas = nil, v1alpha1.Pods(2), ptr.To(int32(1))
			}},
		},
		"an unknown expectation changes nothing": {
			cells:   []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{CountedReplicas: 3}}},
			changes: []change{observing(time.Minute)}, want: v1alpha1.ReasonObserving, since: time.Minute,
		},
		"pods of a stale cell do not count": {
			cells: []v1alpha1.PodProtectorCell{countedCell("a", 6, 3)}, changes: []change{func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Discount = v1alpha1.DiscountStale }},
		},
	} {
		p := expectingProtector(c.cells...)
		for _, change := range c.changes {
			change(p)
		}
		for i := range p.Status.Cells {
			p.Status.Cells[i].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
		}
		conditions.Summarize(p, observedAt)
		got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
		if got == nil || c.want == "" {
			if got != nil || c.want != "" {
				t.Errorf("%s: condition %+v, want reason %q", claim, got, c.want)
			}
			continue
		}
		status := map[string]metav1.ConditionStatus{
			v1alpha1.ReasonObserving: metav1.ConditionUnknown, v1alpha1.ReasonMorePodsThanExpected: metav1.ConditionTrue, v1alpha1.ReasonPodsExpected: metav1.ConditionFalse,
		}[c.want]
		if got.Reason != c.want || got.Status != status || observedAt.Sub(got.LastTransitionTime.Time) != c.since {
			t.Errorf("%s: condition %+v, want status %s and reason %s since %s", claim, got, status, c.want, c.since)
		}
		for _, word := range c.words {
			if !strings.Contains(got.Message, word) {
				t.Errorf("%s: message %q lacks %q", claim, got.Message, word)
			}
		}
		if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c.want == v1alpha1.ReasonMorePodsThanExpected && ready.Status != metav1.ConditionTrue {
			t.Errorf("%s: Ready is %+v, want true", claim, ready)
		}
	}
}

// The condition must become true at its time without another event, and cost a write only then.
func TestExcessIsWrittenOnlyAtItsBeginAndEnd(t *testing.T) {
	p := expectingProtector(countedCell("a", 3, 1, expects("Prometheus", "main", 1)))
	p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
	conditions.Summarize(p, observedAt.Add(time.Millisecond))
	if wait := conditions.ExcessObservation(p, observedAt); wait != tooLong {
		t.Errorf("ExcessObservation() = %s at first, want %s", wait, tooLong)
	}
	for _, later := range []time.Duration{time.Second, tooLong - time.Second} {
		after := p.DeepCopy()
		conditions.Summarize(after, observedAt.Add(later))
		if !isUnchanged(p, after, "a") {
			t.Errorf("after %s, the status changed from %+v to %+v, want no change", later, p.Status, after.Status)
		}
	}
	due := p.DeepCopy()
	conditions.Summarize(due, observedAt.Add(tooLong))
	if isUnchanged(p, due, "a") || admitsTheSame(p, due, "a") {
		t.Errorf("after %s, the write of %+v is not needed or deferred, want it at once", tooLong, due.Status.Conditions)
	}
	if wait := conditions.ExcessObservation(due, observedAt.Add(tooLong)); wait != 0 {
		t.Errorf("ExcessObservation() = %s when the condition is true, want 0", wait)
	}
	recorder := events.NewFakeRecorder(2)
	emitter := &protectorEvents{cell: "a", recorder: recorder}
	emitter.emitExpectation(p, due)
	emitter.emitExpectation(due, due)
	if len(recorder.Events) != 1 {
		t.Errorf("%d events were emitted, want 1", len(recorder.Events))
	}
}

// A rollout begins and ends an excess with each pod: those writes may be deferred with the numbers that they follow.
func TestExcessOfARolloutDefersWrites(t *testing.T) {
	surging := expectingProtector(countedCell("a", 4, 3))
	settled := expectingProtector(countedCell("a", 3, 3))
	surging.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExpectationBelowPods, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonObserving}}
	settled.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExpectationBelowPods, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPodsExpected}}
	if !admitsTheSame(surging, settled, "a") {
		t.Error("the end of a surge is not deferred, want it to be")
	}
	more, fewer := surging.DeepCopy(), surging.DeepCopy()
	for p, message := range map[*v1alpha1.PodProtector]string{more: "5 of 3", fewer: "4 of 3"} {
		p.Status.Conditions[0].Status, p.Status.Conditions[0].Message = metav1.ConditionTrue, message
	}
	if !admitsTheSame(more, fewer, "a") {
		t.Error("a change of the number of extra pods is not deferred, want it to be")
	}
	if admitsTheSame(more, settled, "a") || more.Status.Conditions[0].Message == "" {
		t.Errorf("the end of the condition is deferred, or the comparison changed %+v", more.Status.Conditions)
	}
}
