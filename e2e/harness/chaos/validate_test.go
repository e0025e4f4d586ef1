package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// fact is a change that was stored at that second, to within 10 ms.
func fact(change storm.Change, uid string, second float64) Fact {
	at := time.Duration(second * float64(time.Second))
	return Fact{Change: change, UID: types.UID(uid), Pod: "pod-" + uid, Earliest: at - 5*time.Millisecond, Latest: at + 5*time.Millisecond}
}

// admitted is a removal that was admitted at that second and requested half a second before.
func admitted(uid string, second float64) RemovalRequest {
	at := time.Duration(second * float64(time.Second))
	return RemovalRequest{Cell: "one", Pod: "pod-" + uid, UID: types.UID(uid), Outcome: storm.Admitted, Sent: at - time.Second/2, Answered: at}
}

func denied(uid string, second float64) RemovalRequest {
	ask := admitted(uid, second)
	ask.Outcome = storm.Denied
	return ask
}

func truths(one, two []Fact) []Truth {
	return []Truth{
		{Cell: "one", Baseline: []types.UID{"a", "b"}, Facts: one},
		{Cell: "two", Baseline: []types.UID{"c", "d"}, Facts: two},
	}
}

func TestValidateDistinguishesLegalAdmissions(t *testing.T) {
	for claim, c := range map[string]struct {
		evidence Evidence
		want     Judgement
	}{
		"the whole budget may be consumed, with repeated requests": {
			Evidence{Floor: 2, Requests: []RemovalRequest{admitted("a", 1), denied("b", 1.2), admitted("a", 2), admitted("c", 2)},
				Truths: truths([]Fact{fact(storm.Removed, "a", 1)}, []Fact{fact(storm.Removed, "c", 2)})},
			Judgement{Admitted: 3, Legal: 3, Removals: 2, MinAvailable: 2},
		},
		"one more than the budget is an over-admission, and illegal": {
			Evidence{Floor: 3, Requests: []RemovalRequest{admitted("a", 1), admitted("c", 2)},
				Truths: truths([]Fact{fact(storm.Removed, "a", 1)}, []Fact{fact(storm.Removed, "c", 2)})},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 1, MinAvailable: 2, Illegal: []string{"one/pod-c"}},
		},
		"a removal that no client recorded is judged as well": {
			Evidence{Floor: 3, Requests: []RemovalRequest{admitted("a", 1)},
				Truths: truths([]Fact{fact(storm.Removed, "a", 1)}, []Fact{fact(storm.Removed, "c", 2)})},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 1, MinAvailable: 2, Illegal: []string{"two/pod-c"}},
		},
		"a new pod adds budget": {
			Evidence{Floor: 3, Requests: []RemovalRequest{admitted("a", 1), admitted("c", 3)},
				Truths: truths([]Fact{fact(storm.Removed, "a", 1), fact(storm.Gained, "e", 2)}, []Fact{fact(storm.Removed, "c", 3)})},
			Judgement{Admitted: 2, Legal: 2, Removals: 2, MinAvailable: 3},
		},
		// The pod became available before the removal took effect, so no floor was broken. The admission was a guess all the same.
		"an admission before there is budget is illegal although the floor held": {
			Evidence{Floor: 3, Requests: []RemovalRequest{admitted("a", 1), admitted("c", 2)},
				Truths: truths([]Fact{fact(storm.Removed, "a", 1), fact(storm.Gained, "e", 3)}, []Fact{fact(storm.Removed, "c", 4)})},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, MinAvailable: 3, Illegal: []string{"one/pod-c"}},
		},
		"a pod that fails by itself is not a removal": {
			Evidence{Floor: 4, Truths: truths([]Fact{fact(storm.Dropped, "a", 1)}, nil)},
			Judgement{MinAvailable: 3, Dropped: 1},
		},
		"no removal may take effect in an outage once requests in flight have ended": {
			Evidence{Floor: 2, Outages: []Outage{{"the core was unreachable", 0, 60 * time.Second}},
				Truths: truths([]Fact{fact(storm.Removed, "a", 9)}, []Fact{fact(storm.Removed, "c", 20)})},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, MinAvailable: 2, Illegal: []string{"two/pod-c"}},
		},
		"removals may take effect after the outage": {
			Evidence{Floor: 2, Outages: []Outage{{"the core was unreachable", 0, 15 * time.Second}},
				Truths: truths([]Fact{fact(storm.Removed, "a", 9)}, []Fact{fact(storm.Removed, "c", 20)})},
			Judgement{Admitted: 2, Legal: 2, Removals: 2, MinAvailable: 2},
		},
		"a request for which no webhook could be called is counted": {
			Evidence{Floor: 2, Truths: truths(nil, nil), Requests: []RemovalRequest{{UID: "a", Outcome: storm.Failed,
				Error: `Internal error occurred: failed calling webhook "pods.breakwater.dev": EOF`}}},
			Judgement{MinAvailable: 4, Unreviewed: 1},
		},
		"the removal of an unavailable pod consumes no budget": {
			Evidence{Floor: 4, Requests: []RemovalRequest{admitted("x", 1)}, Truths: truths(nil, nil)},
			Judgement{MinAvailable: 4},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			got := Validate(c.evidence)
			for i := range got.Illegal {
				got.Illegal[i], _, _ = strings.Cut(got.Illegal[i], " ")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A long history of many concurrent clients is decided, and each excess admission is counted.
func TestValidateCountsIllegalAdmissionsInAStorm(t *testing.T) {
	evidence := Evidence{Floor: 40, Truths: []Truth{{Cell: "one"}}}
	for i := range 60 {
		evidence.Truths[0].Baseline = append(evidence.Truths[0].Baseline, types.UID(fmt.Sprint(i)))
	}
	for i := range 300 { // each is replaced by a new one before the next is removed
		at := 1 + float64(i)/10
		uid := fmt.Sprint(i)
		evidence.Requests = append(evidence.Requests, admitted(uid, at))
		facts := &evidence.Truths[0].Facts
		*facts = append(*facts, fact(storm.Removed, uid, at), fact(storm.Gained, fmt.Sprint(60+i), at+0.05))
	}
	for i := 330; i < 352; i++ {
		at := 40 + float64(i)/5
		evidence.Requests = append(evidence.Requests, admitted(fmt.Sprint(i), at))
		evidence.Truths[0].Facts = append(evidence.Truths[0].Facts, fact(storm.Removed, fmt.Sprint(i), at))
	}
	got := Validate(evidence)
	if got.OverAdmissions != 2 || len(got.Illegal) != 2 || got.Legal != 320 || got.MinAvailable != 38 {
		t.Errorf("want 2 over-admissions, 2 illegal and 320 legal admissions, 38 at least, got %+v", got)
	}
}

func TestReplayDistinguishesGainsRemovalsAndDrops(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "a"}, Spec: corev1.PodSpec{NodeName: "node"}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		change(p)
		return p
	}
	healthy := pod(func(*corev1.Pod) {})
	pending := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	terminating := pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	recreated := pod(func(p *corev1.Pod) { p.UID = "b" })
	got, _ := replay("one", []revision{{Number: 1, Key: "web", Pod: healthy}}, []revision{
		{Number: 2, Key: "web", Pod: pending}, {Number: 3, Key: "web", Pod: healthy}, {Number: 4, Key: "web", Pod: terminating},
		{Number: 5, Key: "web"}, {Number: 6, Key: "web", Pod: recreated}, {Number: 7, Key: "web"},
	}, boundsOf([]revisionRead{{1, 2, 2}, {5, 9, 4}, {10, 12, 6}}, 0, 20))
	want := Truth{Cell: "one", Baseline: []types.UID{"a"}, Facts: []Fact{
		{storm.Dropped, "a", "web", 2, 0, 2}, {storm.Gained, "a", "web", 3, 1, 9}, {storm.Removed, "a", "web", 4, 1, 9},
		{storm.Gained, "b", "web", 6, 5, 12}, {storm.Removed, "b", "web", 7, 10, 20},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
