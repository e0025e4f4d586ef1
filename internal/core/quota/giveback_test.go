package quota_test

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestGiveBack(t *testing.T) {
	reserve := func(p *v1alpha1.PodProtector, uid string) quota.Claim {
		return quota.Decide(p, []quota.Removal{removal("c0", uid)})[0].Claim
	}
	for claim, test := range map[string]struct {
		run  func(p *v1alpha1.PodProtector) bool
		want bool
		left int
	}{
		"gives back what this request reserved": {func(p *v1alpha1.PodProtector) bool {
			return quota.GiveBack(p, "c0", "a", reserve(p, "a"))
		}, true, 0},
		"leaves what somebody renewed": {func(p *v1alpha1.PodProtector) bool {
			claim := reserve(p, "a")
			reserve(p, "a")
			return quota.GiveBack(p, "c0", "a", claim)
		}, false, 1},
		"leaves what is gone": {func(p *v1alpha1.PodProtector) bool {
			return quota.GiveBack(p, "c0", "a", quota.Claim{Token: "t", Stored: true})
		}, false, 0},
		"leaves an unknown cell": {func(p *v1alpha1.PodProtector) bool {
			return quota.GiveBack(p, "c9", "a", quota.Claim{Token: "t", Stored: true})
		}, false, 0},
		"leaves a merged reservation, which may have been renewed": {func(p *v1alpha1.PodProtector) bool {
			claim := reserve(threshold(p, 0), "a")
			compactAll(p, start)
			return quota.GiveBack(p, "c0", "a", claim)
		}, false, 1},
		"leaves what another has reserved at the same time, when the write of this one was lost": {
			func(p *v1alpha1.PodProtector) bool {
				lost := reserve(p.DeepCopy(), "a")
				reserve(p, "a")
				return quota.GiveBack(p, "c0", "a", lost)
			}, false, 1},
		"knows no reservation without a token": {func(p *v1alpha1.PodProtector) bool {
			nameless := removal("c0", "a")
			nameless.Token = ""
			return quota.GiveBack(p, "c0", "a", quota.Decide(p, []quota.Removal{nameless})[0].Claim)
		}, false, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			if got := test.run(p); got != test.want {
				t.Errorf("given back: %v, want %v", got, test.want)
			}
			if got := quota.BudgetOf(p).Reserved; got != test.left {
				t.Errorf("%d reservations left, want %d", got, test.left)
			}
		})
	}
}

// ask reserves a removal that may be given back, and stores the reservation.
func ask(p *v1alpha1.PodProtector, uid string) quota.Claim {
	r := removal("c0", uid)
	r.RevocableUntil = start.Add(time.Second)
	claim := quota.Decide(p, []quota.Removal{r})[0].Claim
	claim.Stored = true
	return claim
}

func TestASharedReservationGoesWithTheLastWhoGivesBack(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		p := protector(1, 9)
		claims := []quota.Claim{ask(p, "a"), ask(p, "a"), ask(p, "a")}
		for i, next := range order {
			if left := quota.BudgetOf(p).Reserved; left != 1 {
				t.Errorf("order %v: %d reservations after %d of 3 gave back, want 1", order, left, i)
			}
			if !quota.GiveBack(p, "c0", "a", claims[next]) {
				t.Errorf("order %v: claim %d was not given back", order, next)
			}
		}
		if left := quota.BudgetOf(p).Reserved; left != 0 {
			t.Errorf("order %v: %d reservations are left", order, left)
		}
	}
}

func TestAReservationStaysForWhoeverMayRelyOnIt(t *testing.T) {
	for claim, giveBack := range map[string]func(p *v1alpha1.PodProtector) bool{
		"one who renewed it, stored before the loss of another's renewal": func(p *v1alpha1.PodProtector) bool {
			ask(p, "a")
			lost := ask(p.DeepCopy(), "a")
			lost.Stored = false
			return quota.GiveBack(p, "c0", "a", lost)
		},
		"one who renewed it, when its maker gives back": func(p *v1alpha1.PodProtector) bool {
			made := ask(p, "a")
			ask(p, "a")
			made.Stored = false // its token shows that the write succeeded
			return !quota.GiveBack(p, "c0", "a", made)
		},
		"one who made it anew after it was settled": func(p *v1alpha1.PodProtector) bool {
			old := ask(p, "a")
			p.Status.Cells[0].AdmissionHistory.Buckets = nil
			late := removal("c0", "a")
			late.At = start.Add(time.Minute)
			quota.Decide(p, []quota.Removal{late})
			return quota.GiveBack(p, "c0", "a", old)
		},
		"one who never gives back": func(p *v1alpha1.PodProtector) bool {
			quota.Decide(p, []quota.Removal{removal("c0", "a")})
			return quota.GiveBack(p, "c0", "a", ask(p, "a"))
		},
		"one of those whose claims were merged": func(p *v1alpha1.PodProtector) bool {
			ask(threshold(p, 0), "a")
			joined := ask(p, "a")
			compactAll(p, start.Add(time.Hour))
			return quota.GiveBack(p, "c0", "a", joined)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			if giveBack(p) || quota.BudgetOf(p).Reserved != 1 {
				t.Errorf("it was given back: %+v", p.Status.Cells[0].AdmissionHistory)
			}
		})
	}
}
