// Package confirm parses confirmations: annotations by which users confirm the release of a floor.
package confirm

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Confirmed reports whether an object's annotations confirm the release of floors at the given time. The value must be "true", or a
// date or an RFC 3339 time that has not passed. A date is valid until its end in UTC. Any other value confirms nothing.
func Confirmed(annotations map[string]string, now time.Time) bool {
	value, ok := annotations[v1alpha1.AnnotationConfirmRelease]
	if !ok {
		return false
	}
	if value == "true" {
		return true
	}
	if until, err := time.Parse(time.RFC3339, value); err == nil {
		return now.Before(until)
	}
	day, err := time.Parse(time.DateOnly, value)
	return err == nil && now.Before(day.AddDate(0, 0, 1))
}
