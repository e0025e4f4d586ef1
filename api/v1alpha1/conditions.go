package v1alpha1

// Conditions of PodProtector and Cell. Ready follows kstatus: it tells whether the object was taken up, not
// whether the application is well.
const (
	// ConditionReady of a PodProtector: its pods are counted in at least one cell, by the current spec.
	// Of a Cell: an aggregator leads it and has listed its pods. Written by the aggregators.
	ConditionReady = "Ready"
	// ConditionTargetResolved of a PodProtector: the workload it was derived from, or that its targetRef names, exists.
	// Written by the generator on protectors of its own, and by the aggregators on those with a targetRef.
	ConditionTargetResolved = "TargetResolved"
	// ConditionOverlapping of a PodProtector: others of its namespace can cover the same pods. Written by the overlap
	// controller, when it is or was so.
	ConditionOverlapping = "Overlapping"
	// ConditionKindsServed of a policy: the apiserver serves all kinds that it names, and we may list them.
	ConditionKindsServed = "KindsServed"
)

// Reasons of conditions.
const (
	ReasonAggregated       = "Aggregated"
	ReasonNotAggregated    = "NotAggregated"
	ReasonInvalidSelector  = "InvalidSelector"
	ReasonSelectorsOverlap = "SelectorsOverlap"
	ReasonDisjoint         = "Disjoint"
	ReasonFloorUnknown     = "FloorUnknown"
	ReasonTargetFound      = "TargetFound"
	ReasonTargetGone       = "TargetGone"
	ReasonTargetNotFound   = "TargetNotFound"
	ReasonTargetUnknown    = "TargetUnknown"
	ReasonSourceFound      = "SourceFound"
	ReasonSourceVanished   = "SourceVanished"
	ReasonAggregating      = "Aggregating"
	ReasonAggregatorIdle   = "AggregatorStopped"
	ReasonRecreateStrategy = "RecreateStrategy"
	ReasonDeletionHeld     = "DeletionHeld"
	ReasonOnDeleteStrategy = "OnDeleteStrategy"
	ReasonPolicyVanished   = "PolicyVanished"
	ReasonPolicyDeleted    = "PolicyDeleted"
	ReasonPolicyLeft       = "PolicyLeft"
	ReasonApplied          = "Applied"
	ReasonApplying         = "Applying"
	ReasonReleasing        = "Releasing"
	ReasonKindsServed      = "KindsServed"
	ReasonKindNotServed    = "KindNotServed"
	ReasonKindNotListed    = "KindNotListed"
)
