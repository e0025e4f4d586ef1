package judge

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
)

// gapAt returns the verdict on a namespace that an API server saw at a time. Its states are one second apart. guarded is when a protector began to
// report that it is guarded.
func gapAt(t *testing.T, seenAt, guarded int, changes ...spaceChange) string {
	t.Helper()
	j := newScopeJudge(&report{trace: trace.New()})
	begin := time.Unix(0, 0)
	for i, c := range changes {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scenario.Namespace, Labels: map[string]string{}}}
		if c.labeled {
			space.Labels[v1alpha1.LabelProtected] = "true"
		}
		j.recordNamespace("worker-0", space, &apiserverEvent{Type: c.kind, By: c.by})
		j.spaces["worker-0"][scenario.Namespace][i].at = begin.Add(time.Duration(i) * time.Second)
	}
	return j.judgeGap("worker-0", scenario.Namespace, begin.Add(time.Duration(guarded)*time.Second), begin.Add(time.Duration(seenAt)*time.Second))
}

type spaceChange struct {
	kind    watch.EventType
	labeled bool
	by      string
}

func TestTheJudgeExcusesOnlyDocumentedBypasses(t *testing.T) {
	const aggregator = "aggregator-0"
	created, labeled := spaceChange{watch.Added, false, scenario.User}, spaceChange{watch.Modified, true, aggregator}
	for name, c := range map[string]struct {
		seenAt, guarded int
		changes         []spaceChange
		isExcused       bool
	}{
		"the label was never set":                   {2, 1, []spaceChange{created, {watch.Modified, false, scenario.User}}, false},
		"the label is younger than the report":      {0, 2, []spaceChange{created, labeled}, false},
		"the aggregator removed it":                 {2, 1, []spaceChange{created, labeled, {watch.Modified, false, aggregator}}, false},
		"a client removed it":                       {2, 1, []spaceChange{created, labeled, {watch.Modified, false, scenario.User}}, true},
		"the namespace was recreated since":         {3, 2, []spaceChange{created, labeled, {watch.Deleted, true, ""}, created}, true},
		"the report began after the recreation":     {3, 5, []spaceChange{created, labeled, {watch.Deleted, true, ""}, created, labeled}, false},
		"the report was in transit at the creation": {3, 4, []spaceChange{created, labeled, {watch.Deleted, true, ""}, created, labeled}, true},
		"the report began while it did not exist":   {3, 3, []spaceChange{created, labeled, {watch.Deleted, true, ""}, created, labeled}, true},
	} {
		if got := gapAt(t, c.seenAt, c.guarded, c.changes...); (got == "") != c.isExcused {
			t.Errorf("%s: judgeGap() = %q, want excused: %v", name, got, c.isExcused)
		}
	}
}

func TestTheJudgeReadsWhichProtectorsAreGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		a    v1alpha1.Aggregation
		want bool
	}{
		"counted":        {v1alpha1.Aggregation{Holder: "a"}, true},
		"not counted":    {v1alpha1.Aggregation{}, false},
		"void":           {v1alpha1.Aggregation{Holder: "a", Void: true}, false},
		"without label":  {v1alpha1.Aggregation{Holder: "a", Exempt: v1alpha1.ExemptNotLabeled}, false},
		"not determined": {v1alpha1.Aggregation{Holder: "a", ExemptProblem: "x"}, false},
	} {
		if got := isGuarded(&v1alpha1.PodProtectorCell{Aggregation: c.a}); got != c.want {
			t.Errorf("%s: isGuarded() = %v, want %v", name, got, c.want)
		}
	}
}
