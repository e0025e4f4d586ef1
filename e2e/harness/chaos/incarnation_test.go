package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// healthy returns an available pod as an etcd stored it.
func healthy(number int64, name string) revision {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "node"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return revision{Number: number, Key: name, Pod: p}
}

// at returns bounds by which revision n was stored n seconds after begin, the start of its incarnation.
func at(begin int64) func(int64) (time.Duration, time.Duration) {
	return func(n int64) (time.Duration, time.Duration) {
		return time.Duration(begin+n) * time.Second, time.Duration(begin+n) * time.Second
	}
}

// restored returns a cell of the pods a, b and c that loses a, gains d, and is then restored to its beginning, when it loses a again.
func restored() ([]incarnation, []restorePoint) {
	first := []revision{healthy(1, "a"), healthy(1, "b"), healthy(1, "c")}
	return []incarnation{
		{first: first, later: []revision{{Number: 2, Key: "a"}, healthy(3, "d")}, bounds: at(0)},
		{first: first, later: []revision{{Number: 2, Key: "a"}}, bounds: at(20)},
	}, []restorePoint{{ended: 10 * time.Second, began: 12 * time.Second, drained: 30 * time.Second}}
}

func TestRestoreBringsPodsBackAndDropsNewerOnes(t *testing.T) {
	eras, seams := restored()
	got, again := compose("one", eras, seams)
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	want := []Truth{
		{Cell: "one", Baseline: []types.UID{"a", "b", "c"}, Facts: []Fact{
			{storm.Removed, "a", "a", 2, second(2), second(2)}, {storm.Gained, "d", "d", 3, second(3), second(3)},
			{storm.Gained, "a again", "a", 0, second(10), second(12)}, {storm.Removed, "a again", "a", 2, second(22), second(22)},
		}},
		{Cell: "one, undone", Facts: []Fact{{storm.Dropped, "d", "d", 0, second(10), second(30)}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	requests := again.rename("one", []RemovalRequest{
		{Cell: "one", UID: "a", Sent: second(9)}, {Cell: "one", UID: "a", Sent: second(11)}, {Cell: "two", UID: "a", Sent: second(11)},
		{Cell: "one", UID: "b", Sent: second(11)},
	})
	for i, want := range []types.UID{"a", "a again", "a", "b"} {
		if requests[i].UID != want {
			t.Errorf("request %d is for %q, want %q", i, requests[i].UID, want)
		}
	}
}

// A pod that comes back returns the budget that its removal took, and its second removal takes it again. What a restore undoes counts
// against an admission only once it was known.
func TestRestoreIsJudged(t *testing.T) {
	eras, seams := restored()
	for claim, c := range map[string]struct {
		floor int
		known time.Duration
		want  Judgement
	}{
		"two of three must stay": {2, 30 * time.Second, Judgement{Admitted: 2, Legal: 2, Removals: 2, MinAvailable: 2, Dropped: 1}},
		"three of three: the first removal is illegal, the second had the pod that was undone": {
			3, 30 * time.Second, Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 1, MinAvailable: 2, Dropped: 1, Illegal: []string{"one/a"}}},
		"two must stay, and no removal is admitted after the restore is detected": {
			2, 15 * time.Second, Judgement{Admitted: 2, Legal: 2, Removals: 2, MinAvailable: 2, Dropped: 1}},
		"three must stay, and the restore is detected: both are over-admissions": {
			3, 15 * time.Second, Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 2, MinAvailable: 2, Dropped: 1, Illegal: []string{"one/a"}}},
	} {
		t.Run(claim, func(t *testing.T) {
			seams[0].drained = c.known
			truths, _ := compose("one", eras, seams)
			got := Validate(Evidence{Floor: c.floor, Truths: truths})
			for i := range got.Illegal {
				got.Illegal[i], _, _ = strings.Cut(got.Illegal[i], " ")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
