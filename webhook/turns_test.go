package webhook

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestWhoAskedFirstHasTheFirstTurn(t *testing.T) {
	began := time.Now()
	at := func(pod string, after time.Duration) ask {
		removal := quota.Removal{Cell: deskCell, PodUID: deskPod(pod).UID, PodName: pod, At: began.Add(after), Token: pod}
		return ask{removal: removal, claim: &quota.Claim{}}
	}
	for claim, c := range map[string]struct {
		asks []ask
		want []quota.Outcome
	}{
		"in the order of arrival when that is the order of asking": {
			asks: []ask{at("web-0", 0), at("web-1", time.Second), at("web-2", 2*time.Second)},
			want: []quota.Outcome{quota.Reserved, quota.Reserved, quota.RefusedNoBudget},
		},
		"whatever the order of arrival": {
			asks: []ask{at("web-2", 2*time.Second), at("web-0", 0), at("web-1", time.Second)},
			want: []quota.Outcome{quota.RefusedNoBudget, quota.Reserved, quota.Reserved},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			answers, changed := settleAsks(deskProtector("web", 3, 5), c.asks)
			for i, answer := range answers {
				if answer.verdict.Outcome != c.want[i] {
					t.Errorf("%s: %s, want %s", c.asks[i].removal.PodName, answer.verdict.Outcome, c.want[i])
				}
				if got, want := !c.asks[i].claim.None(), c.want[i] == quota.Reserved; got != want {
					t.Errorf("%s has a claim: %v, want %v", c.asks[i].removal.PodName, got, want)
				}
			}
			if !changed {
				t.Error("nothing is changed")
			}
		})
	}
}
