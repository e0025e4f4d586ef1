package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// maxQuietPeriod is the longest quiet period. A deleted policy waits at most 5 minutes for its protectors.
const maxQuietPeriod = 2 * time.Minute

// DecreaseFlags limit large decreases of floors.
type DecreaseFlags struct {
	limits    brake.Limits
	onCascade string
}

// Bind adds the flags to a flag set.
func (f *DecreaseFlags) Bind(flags *pflag.FlagSet) {
	defaults := brake.DefaultLimits()
	flags.IntVar(&f.limits.Count, "decrease-count", defaults.Count,
		"maximum number of large decreases in a window: releases of protectors, and decreases of floors by half or more; "+
			"when more are pending, all of them are held")
	flags.IntVar(&f.limits.Percent, "decrease-percent", defaults.Percent,
		"the same in percent of the protectors; the larger of both applies, and 100 disables the limit")
	flags.DurationVar(&f.limits.Window, "decrease-window", defaults.Window, "window of the limit")
	flags.DurationVar(&f.limits.Quiet, "decrease-quiet-period", defaults.Quiet, "how long a large decrease waits before it takes effect")
	flags.StringVar(&f.onCascade, "on-cascade", string(defaults.OnCascade),
		"Hold keeps a floor whose workload is deleted because its owner, its CustomResourceDefinition or its namespace is deleted, until a user confirms "+
			"its release; "+
			"Release treats it as any other deletion")
}

// Validate returns the limits. Its error names the flag that is out of range.
func (f *DecreaseFlags) Validate() (brake.Limits, error) {
	f.limits.OnCascade = v1alpha1.CascadePolicy(f.onCascade)
	switch {
	case f.limits.Count < 0 || f.limits.Count > brake.MaxGrants:
		return f.limits, fmt.Errorf("--decrease-count %d: must be from 0 to %d", f.limits.Count, brake.MaxGrants)
	case f.limits.Percent < 0 || f.limits.Percent > 100:
		return f.limits, fmt.Errorf("--decrease-percent %d: must be from 0 to 100", f.limits.Percent)
	case f.limits.Window < 10*time.Second || f.limits.Window > 24*time.Hour:
		return f.limits, fmt.Errorf("--decrease-window %s: must be from 10s to 24h", f.limits.Window)
	case f.limits.Quiet < 0 || f.limits.Quiet > maxQuietPeriod:
		return f.limits, fmt.Errorf("--decrease-quiet-period %s: must be from 0s to %s", f.limits.Quiet, maxQuietPeriod)
	case f.limits.OnCascade != v1alpha1.CascadeHold && f.limits.OnCascade != v1alpha1.CascadeRelease:
		return f.limits, fmt.Errorf("--on-cascade %q: must be %s or %s", f.onCascade, v1alpha1.CascadeHold, v1alpha1.CascadeRelease)
	default:
		return f.limits, nil
	}
}
