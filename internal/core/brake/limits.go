package brake

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// MaxGrants bounds the limit of a window, because each grant is an entry in one object, and the API server limits an object's size.
const MaxGrants = 5000

// Limits bound the large decreases of a window.
type Limits struct {
	// Count and Percent define the limit: the larger of Count, and Percent of the protectors that share the budget.
	Count, Percent int
	// Window is the time span to which the limit applies.
	Window time.Duration
	// Quiet is the quiet period of each decrease.
	Quiet time.Duration
	// OnCascade is the policy for decreases that a cascade causes.
	OnCascade v1alpha1.CascadePolicy
}

// DefaultLimits returns the limits of a generator without flags.
func DefaultLimits() Limits {
	return Limits{Count: 5, Percent: 5, Window: 10 * time.Minute, Quiet: 5 * time.Second, OnCascade: v1alpha1.CascadeHold}
}

// OverriddenBy returns the limits overridden by the fields that a policy sets. own reports whether the policy has a budget of its own.
func (l Limits) OverriddenBy(policy *v1alpha1.DecreaseLimits) (limits Limits, overridden bool) {
	if policy == nil {
		return l, false
	}
	if policy.Count != nil {
		l.Count, overridden = int(*policy.Count), true
	}
	if policy.Percent != nil {
		l.Percent, overridden = int(*policy.Percent), true
	}
	if policy.Window != nil {
		l.Window, overridden = policy.Window.Duration, true
	}
	if policy.QuietPeriod != nil {
		l.Quiet, overridden = policy.QuietPeriod.Duration, true
	}
	if policy.OnCascade != "" {
		l.OnCascade = policy.OnCascade
	}
	return l, overridden
}

// Allowed returns the number of large decreases in a window that the limits allow for the given number of protectors.
func (l Limits) Allowed(protectors int) int {
	if l.Percent >= 100 {
		return MaxGrants
	}
	return min(max(l.Count, protectors*l.Percent/100), MaxGrants)
}
