package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of the CRD, for a Cell that was created before them or was not read from an API server.
const (
	defaultAdmissionDeadline = 65 * time.Second
	defaultStaleAfter        = time.Minute
)

// AdmissionDeadlineOrDefault returns the time for which an admitted removal may still take effect. A nil spec stands for an
// unknown Cell.
func (in *CellSpec) AdmissionDeadlineOrDefault() time.Duration {
	if in == nil {
		return defaultAdmissionDeadline
	}
	return durationOr(in.AdmissionDeadline, defaultAdmissionDeadline)
}

// StaleAfterOrDefault returns the time without a heartbeat of the aggregator after which the cell is stale.
func (in *CellSpec) StaleAfterOrDefault() time.Duration {
	return durationOr(in.StaleAfter, defaultStaleAfter)
}

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}
