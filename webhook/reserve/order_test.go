package reserve

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestOperationsApplyInRequestOrder(t *testing.T) {
	began := time.Now()
	at := func(pod string, after time.Duration) historyOp {
		removal := quota.Removal{Cell: memoryCell, PodUID: memoryPod(pod).UID, PodName: pod, At: began.Add(after), Token: pod}
		return historyOp{removal: removal, claim: &quota.Claim{}}
	}
	for claim, c := range map[string]struct {
		ops  []historyOp
		want []quota.Outcome
	}{
		"in order of arrival if it equals the order of requests": {
			ops:  []historyOp{at("web-0", 0), at("web-1", time.Second), at("web-2", 2*time.Second)},
			want: []quota.Outcome{quota.Reserved, quota.Reserved, quota.DeniedNoBudget},
		},
		"in order of requests if the order of arrival differs": {
			ops:  []historyOp{at("web-2", 2*time.Second), at("web-0", 0), at("web-1", time.Second)},
			want: []quota.Outcome{quota.DeniedNoBudget, quota.Reserved, quota.Reserved},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			results, changed := applyOps(memoryProtector("web", 3, 5), c.ops)
			for i, result := range results {
				if result.verdict.Outcome != c.want[i] {
					t.Errorf("%s: %s, want %s", c.ops[i].removal.PodName, result.verdict.Outcome, c.want[i])
				}
				if got, want := !c.ops[i].claim.IsEmpty(), c.want[i] == quota.Reserved; got != want {
					t.Errorf("%s has a claim: %v, want %v", c.ops[i].removal.PodName, got, want)
				}
			}
			if !changed {
				t.Error("the history is unchanged, want a change")
			}
		})
	}
}
