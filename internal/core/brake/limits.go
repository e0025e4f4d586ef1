package brake

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// MaxGrants bounds the limit of a window: each grant is stored by itself, and an object of an API server holds no more.
const MaxGrants = 5000

// Limits bound the large decreases of a window.
type Limits struct {
	// Count and Percent give the limit: the larger of Count, and Percent of the protectors that the budget is for.
	Count, Percent int
	// Window is the time that the limit is for.
	Window time.Duration
	// Quiet is how long each decrease waits.
	Quiet time.Duration
	// OnCascade is what becomes of decreases that a cascade causes.
	OnCascade v1alpha1.CascadePolicy
}

// DefaultLimits are those of a generator without flags.
func DefaultLimits() Limits {
	return Limits{Count: 5, Percent: 5, Window: 10 * time.Minute, Quiet: 5 * time.Second, OnCascade: v1alpha1.CascadeHold}
}

// With returns the limits with what a policy sets. own reports whether the policy has a budget of its own.
func (l Limits) With(policy *v1alpha1.DecreaseLimits) (limits Limits, own bool) {
	if policy == nil {
		return l, false
	}
	if policy.Count != nil {
		l.Count, own = int(*policy.Count), true
	}
	if policy.Percent != nil {
		l.Percent, own = int(*policy.Percent), true
	}
	if policy.Window != nil {
		l.Window, own = policy.Window.Duration, true
	}
	if policy.QuietPeriod != nil {
		l.Quiet, own = policy.QuietPeriod.Duration, true
	}
	if policy.OnCascade != "" {
		l.OnCascade = policy.OnCascade
	}
	return l, own
}

// Allowed is how many of that many protectors may have a large decrease in a window.
func (l Limits) Allowed(protectors int) int {
	if l.Percent >= 100 {
		return MaxGrants
	}
	return min(max(l.Count, protectors*l.Percent/100), MaxGrants)
}
