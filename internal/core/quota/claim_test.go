package quota_test

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestReleaseClaim(t *testing.T) {
	reserve := func(p *v1alpha1.PodProtector, uid string) quota.Claim {
		return quota.Decide(p, []quota.Removal{removal("c0", uid)})[0].Claim
	}
	for claim, test := range map[string]struct {
		run  func(p *v1alpha1.PodProtector) bool
		want bool
		left int
	}{
		"gives back what this request reserved": {func(p *v1alpha1.PodProtector) bool {
			return quota.ReleaseClaim(p, "c0", "a", reserve(p, "a"))
		}, true, 0},
		"keeps a reservation that another request renewed": {func(p *v1alpha1.PodProtector) bool {
			claim := reserve(p, "a")
			reserve(p, "a")
			return quota.ReleaseClaim(p, "c0", "a", claim)
		}, false, 1},
		"ignores a missing reservation": {func(p *v1alpha1.PodProtector) bool {
			return quota.ReleaseClaim(p, "c0", "a", quota.Claim{Token: "t", Stored: true})
		}, false, 0},
		"ignores an unknown cell": {func(p *v1alpha1.PodProtector) bool {
			return quota.ReleaseClaim(p, "c9", "a", quota.Claim{Token: "t", Stored: true})
		}, false, 0},
		"keeps a merged reservation, which may have been renewed": {func(p *v1alpha1.PodProtector) bool {
			claim := reserve(withThreshold(p, 0), "a")
			compactAll(p, start)
			return quota.ReleaseClaim(p, "c0", "a", claim)
		}, false, 1},
		"keeps a concurrent reservation of another request when its own write failed": {
			func(p *v1alpha1.PodProtector) bool {
				lost := reserve(p.DeepCopy(), "a")
				reserve(p, "a")
				return quota.ReleaseClaim(p, "c0", "a", lost)
			}, false, 1},
		"keeps a reservation without a token": {func(p *v1alpha1.PodProtector) bool {
			nameless := removal("c0", "a")
			nameless.Token = ""
			return quota.ReleaseClaim(p, "c0", "a", quota.Decide(p, []quota.Removal{nameless})[0].Claim)
		}, false, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			if got := test.run(p); got != test.want {
				t.Errorf("ReleaseClaim() = %v, want %v", got, test.want)
			}
			if got := quota.BudgetOf(p).Reserved; got != test.left {
				t.Errorf("%d reservations left, want %d", got, test.left)
			}
		})
	}
}

// reserveClaim reserves a removal that may be given back, and stores the reservation.
func reserveClaim(p *v1alpha1.PodProtector, uid string) quota.Claim {
	r := removal("c0", uid)
	r.RevocableUntil = start.Add(time.Second)
	claim := quota.Decide(p, []quota.Removal{r})[0].Claim
	claim.Stored = true
	return claim
}

func TestLastClaimReleasesTheReservation(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		p := protector(1, 9)
		claims := []quota.Claim{reserveClaim(p, "a"), reserveClaim(p, "a"), reserveClaim(p, "a")}
		for i, next := range order {
			if left := quota.BudgetOf(p).Reserved; left != 1 {
				t.Errorf("order %v: %d reservations after %d of 3 claims were given back, want 1", order, left, i)
			}
			if !quota.ReleaseClaim(p, "c0", "a", claims[next]) {
				t.Errorf("order %v: ReleaseClaim() of claim %d = false, want true", order, next)
			}
		}
		if left := quota.BudgetOf(p).Reserved; left != 0 {
			t.Errorf("order %v: %d reservations left, want 0", order, left)
		}
	}
}

func TestReleaseClaimKeepsReservationsThatRequestsRelyOn(t *testing.T) {
	for claim, giveBack := range map[string]func(p *v1alpha1.PodProtector) bool{
		"a request that renewed it before the write of another renewal failed": func(p *v1alpha1.PodProtector) bool {
			reserveClaim(p, "a")
			lost := reserveClaim(p.DeepCopy(), "a")
			lost.Stored = false
			return quota.ReleaseClaim(p, "c0", "a", lost)
		},
		"a request that renewed it, when the first request gives back": func(p *v1alpha1.PodProtector) bool {
			made := reserveClaim(p, "a")
			reserveClaim(p, "a")
			made.Stored = false // its token shows that the write succeeded
			return !quota.ReleaseClaim(p, "c0", "a", made)
		},
		"a request that reserved again after settlement": func(p *v1alpha1.PodProtector) bool {
			old := reserveClaim(p, "a")
			p.Status.Cells[0].AdmissionHistory.Buckets = nil
			late := removal("c0", "a")
			late.At = start.Add(time.Minute)
			quota.Decide(p, []quota.Removal{late})
			return quota.ReleaseClaim(p, "c0", "a", old)
		},
		"a request that never gives back": func(p *v1alpha1.PodProtector) bool {
			quota.Decide(p, []quota.Removal{removal("c0", "a")})
			return quota.ReleaseClaim(p, "c0", "a", reserveClaim(p, "a"))
		},
		"a request whose claims were merged": func(p *v1alpha1.PodProtector) bool {
			reserveClaim(withThreshold(p, 0), "a")
			joined := reserveClaim(p, "a")
			compactAll(p, start.Add(time.Hour))
			return quota.ReleaseClaim(p, "c0", "a", joined)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			if giveBack(p) || quota.BudgetOf(p).Reserved != 1 {
				t.Errorf("ReleaseClaim() = true, want false: %+v", p.Status.Cells[0].AdmissionHistory)
			}
		})
	}
}
