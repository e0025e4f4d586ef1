package v1alpha1

import "time"

// The defaults of the CRD, for a PodProtector that was created before the CRD had them.
const (
	defaultAggregationRate = time.Second
	defaultUpdateTimeout   = 10 * time.Minute
)

// AggregationRateOrDefault returns the time for which an aggregator gathers events of pods before it writes counts.
func (in *AdmissionHistorySpec) AggregationRateOrDefault() time.Duration {
	if in.AggregationRateMillis == nil {
		return defaultAggregationRate
	}
	return time.Duration(*in.AggregationRateMillis) * time.Millisecond
}

// UpdateTimeoutOrDefault returns how long a pod may take to be available again after an update.
func (in *AdmissionHistorySpec) UpdateTimeoutOrDefault() time.Duration {
	if in.UpdateTimeoutSeconds == nil {
		return defaultUpdateTimeout
	}
	return time.Duration(*in.UpdateTimeoutSeconds) * time.Second
}
