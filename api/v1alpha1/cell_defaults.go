package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of the CRD, for a Cell that is older than them or was not read from an apiserver.
const (
	defaultAdmissionDeadline = 65 * time.Second
	defaultStaleAfter        = time.Minute
)

// AdmissionDeadlineOrDefault is how long a removal that was admitted may still take effect. No spec is that of a Cell that is not known.
func (in *CellSpec) AdmissionDeadlineOrDefault() time.Duration {
	if in == nil {
		return defaultAdmissionDeadline
	}
	return durationOr(in.AdmissionDeadline, defaultAdmissionDeadline)
}

// StaleAfterOrDefault is how long the aggregator may be silent until the cell is taken for stale.
func (in *CellSpec) StaleAfterOrDefault() time.Duration {
	return durationOr(in.StaleAfter, defaultStaleAfter)
}

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}
