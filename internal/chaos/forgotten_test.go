package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/storm"
)

func TestARelapseForgetsWhoHasGone(t *testing.T) {
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for claim, c := range map[string]struct {
		one, two []Fact
		want     []Forgotten
	}{
		"nothing that has not gone": {nil, nil, nil},
		"as many as are missing": {
			[]Fact{fact(storm.Removed, "a", 1), fact(storm.Removed, "b", 2)}, []Fact{fact(storm.Removed, "c", 2)},
			[]Forgotten{{"two", 1, second(10), second(25)}, {"one", 2, second(10), second(30)}},
		},
		"none that was replaced in its cell": {
			[]Fact{fact(storm.Removed, "a", 1), fact(storm.Gained, "e", 2)}, nil, nil,
		},
		"one that another cell gained instead": {
			[]Fact{fact(storm.Removed, "a", 1)}, []Fact{fact(storm.Gained, "e", 2)},
			[]Forgotten{{"one", 1, second(10), second(30)}},
		},
		"more than there were at first, if the cell had more": {
			[]Fact{fact(storm.Gained, "e", 1), fact(storm.Removed, "a", 2), fact(storm.Removed, "b", 3)}, nil,
			[]Forgotten{{"one", 2, second(10), second(30)}},
		},
		"one that may have gone before or after": {
			[]Fact{fact(storm.Removed, "a", 10)}, nil, []Forgotten{{"one", 1, second(10), second(30)}},
		},
		"one that was on its way": {
			nil, []Fact{fact(storm.Removed, "d", 12)}, []Forgotten{{"two", 1, second(10), second(25)}},
		},
		"one that was on its way, once": {
			nil, []Fact{fact(storm.Removed, "d", 10)}, []Forgotten{{"two", 1, second(10), second(25)}},
		},
		"none that goes after it": {[]Fact{fact(storm.Removed, "a", 12), fact(storm.Dropped, "b", 13)}, nil, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			r := &relapse{
				began: second(10), open: map[types.UID]bool{"d": true},
				known: map[string]time.Duration{"one": second(30), "two": second(25)},
			}
			if diff := cmp.Diff(c.want, r.forgotten(truths(c.one, c.two))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if got := (*relapse)(nil).forgotten(truths(nil, nil)); got != nil {
		t.Errorf("without a relapse %+v was forgotten", got)
	}
}

// One of four pods goes, three must stay. Then the core forgets that it has gone, from 10 to 20 seconds.
func TestWhatWasForgottenIsExcusedOnce(t *testing.T) {
	for claim, c := range map[string]struct {
		later []Fact
		want  Judgement
	}{
		"as many may go once more": {
			[]Fact{fact(storm.Removed, "b", 15)}, Judgement{Admitted: 2, Legal: 2, Removals: 2, MinAvailable: 2, Excused: 1},
		},
		"one more than that is too many": {
			[]Fact{fact(storm.Removed, "b", 15), fact(storm.Removed, "e", 16)},
			Judgement{Admitted: 3, Legal: 2, Removals: 3, OverAdmissions: 1, Excused: 1, MinAvailable: 1, Illegal: []string{"one/pod-e"}},
		},
		"none before": {
			[]Fact{fact(storm.Removed, "b", 9)},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 1, MinAvailable: 2, Illegal: []string{"one/pod-b"}},
		},
		"none when it is known": {
			[]Fact{fact(storm.Removed, "b", 21)},
			Judgement{Admitted: 2, Legal: 1, Removals: 2, OverAdmissions: 1, MinAvailable: 2, Illegal: []string{"one/pod-b"}},
		},
		"what went once more is still missing when it is known": {
			[]Fact{fact(storm.Removed, "b", 15), fact(storm.Gained, "f", 22), fact(storm.Removed, "e", 23)},
			Judgement{Admitted: 3, Legal: 2, Removals: 3, OverAdmissions: 1, Excused: 1, MinAvailable: 2, Illegal: []string{"one/pod-e"}},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			got := Validate(Evidence{
				Floor: 3, Forgotten: []Forgotten{{"one", 1, 10 * time.Second, 20 * time.Second}},
				Truths: []Truth{{Cell: "one", Baseline: []types.UID{"a", "b", "e", "g"}, Facts: append([]Fact{fact(storm.Removed, "a", 1)}, c.later...)}},
			})
			got.Timeline = nil
			for i := range got.Illegal {
				got.Illegal[i] = got.Illegal[i][:len("one/pod-x")]
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
