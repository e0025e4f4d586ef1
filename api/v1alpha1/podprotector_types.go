package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodProtector states how many pods of an application must stay available over all cells. It covers pods in the namespace of its
// own name, in every cell.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.shareOf.name`
// +kubebuilder:resource:shortName=ppr,categories=breakwater
// +kubebuilder:printcolumn:name="Floor",type=integer,JSONPath=`.status.desiredAvailable`,description="Pods that must stay available"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.summary.available`,description="Available pods in all cells"
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.summary.reserved`,description="Admitted removals that no snapshot accounts for yet"
// +kubebuilder:printcolumn:name="Allowed",type=integer,JSONPath=`.status.disruptionsAllowed`,description="Removals that would be admitted now"
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.summary.total`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Spread",type=string,JSONPath=`.status.conditions[?(@.type=="SpreadSatisfied")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodProtector struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Required
	Spec   PodProtectorSpec   `json:"spec"`
	Status PodProtectorStatus `json:"status,omitempty"`
}

// PodProtectorList is a list of PodProtectors.
//
// +kubebuilder:object:root=true
type PodProtectorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodProtector `json:"items"`
}

// PodProtectorSpec is the desired state of a PodProtector, set by a user or by the generator.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="give either minAvailable or maxUnavailable",fieldPath=".minAvailable"
// +kubebuilder:validation:XValidation:rule="!has(self.shareOf) || has(self.minAvailable) && type(self.minAvailable) == int",message="a share has a number of pods as minAvailable",fieldPath=".minAvailable"
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.targetRef)",message="give either selector or targetRef",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="!has(self.targetRef) || !has(self.aggregationSelector)",message="aggregationSelector goes with selector: with targetRef, the protected pods are counted",fieldPath=".aggregationSelector"
type PodProtectorSpec struct {
	// Selector selects the pods that are protected and counted, in the namespace of the same name in every cell. An empty selector
	// selects all pods of the namespace. selector and targetRef are mutually exclusive. The field is atomic for server-side apply.
	// Otherwise a manually added label would narrow the selector and would stay when the owner applies again.
	//
	// +structType=atomic
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`

	// TargetRef names a workload whose pods are protected and counted. Its kind must have a scale subresource. In each cell, the
	// selector of the scale selects the pods. The expected number of pods is the sum of the workload's replicas over all cells. In
	// a cell without such a workload, no pods are protected. If a workload was observed there and no longer exists,
	// targetRemovalPolicy applies.
	//
	// +structType=atomic
	// +optional
	TargetRef *TargetRef `json:"targetRef,omitempty"`

	// AggregationSelector selects the pods that are counted, if these are more than the protected pods. It must select all pods
	// that selector selects. The additional pods keep the application available while they exist, but their removal consumes no
	// budget and is never denied. If it is not set, the pods of selector are counted. The field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	AggregationSelector *PodSelector `json:"aggregationSelector,omitempty"`

	// ExemptPodSelector selects pods that are neither protected nor counted, although selector selects them. If it is not set, no
	// pod is exempt. The field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	ExemptPodSelector *PodSelector `json:"exemptPodSelector,omitempty"`

	// MinAvailable is the floor: the number of pods that must stay available over all cells, as a number or as a percentage of the
	// expected pods. Percentages are rounded up. With 0, no removal is denied.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable sets the floor to the expected number of pods over all cells minus this value. The value is a number or a
	// percentage of the expected pods. Percentages are rounded up. If the value exceeds the expected number, the floor is 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// ExpectedReplicas is the expected number of pods over all cells, from which percentages and maxUnavailable are computed. If
	// it is not set, Breakwater uses the replicas of targetRef, or else the sum of the replicas of the workloads that own the
	// pods, each counted once, over all cells. Set it if pods have no owner or if their workloads have no scale subresource, since
	// their expected number is then unknown.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// TargetRemovalPolicy defines the expected number of pods of a workload that no longer exists while pods of it still exist.
	// With Retain, its replicas stay expected, because an accident looks the same. With Release, they do not. For a targetRef that
	// no longer exists, Retain also keeps its last selector in force.
	//
	// +kubebuilder:default=Retain
	// +optional
	TargetRemovalPolicy TargetRemovalPolicy `json:"targetRemovalPolicy,omitempty"`

	// MinReadySeconds is the time in seconds for which a pod must have been Ready before it counts as available.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// Criterion is the state in which a pod counts towards the floor. Available: Ready for minReadySeconds. Ready: has the Ready
	// condition. Running: in phase Running. Scheduled: has a node and has not finished. The removal of a pod that does not count
	// consumes no budget. The annotation breakwater.dev/criterion on a pod overrides this field.
	//
	// +kubebuilder:default=Available
	// +optional
	Criterion Criterion `json:"criterion,omitempty"`

	// Operations are the operations that consume budget. A Relabel is a change of a pod's labels, or of its annotation
	// breakwater.dev/criterion, after which the pod is no longer covered or counted. An Update is a change of a pod's spec that
	// can make the pod unavailable, such as the image of a container. A Resize is a change of a pod's resources that restarts a
	// container. Updates and resizes are charged until the pod has been observed updated and available again.
	//
	// +kubebuilder:default={Delete,Evict,Relabel}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Operations []Operation `json:"operations,omitempty"`

	// Spread defines how the pods should be distributed over zones, other groups of nodes, or cells. The field is atomic for
	// server-side apply.
	//
	// +structType=atomic
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// AdmissionHistory tunes how admitted removals are recorded.
	//
	// +kubebuilder:default={}
	// +optional
	AdmissionHistory AdmissionHistorySpec `json:"admissionHistory,omitempty"`

	// CoreOutage defines what a cell does while it cannot reach the core cluster. With Deny, every removal there is denied. With
	// LocalShare, each cell has a share of the floor for its own pods, on which it decides alone at all times; the core moves shares
	// between cells. A cell that cannot have a share is treated as with Deny, as are all cells of a protector with
	// spread.tolerateDomainLoss. LocalShare is experimental.
	//
	// +kubebuilder:default=Deny
	// +optional
	CoreOutage CoreOutage `json:"coreOutage,omitempty"`

	// ShareOf marks a PodProtector in the cluster of a cell as the share of a protector of a core cluster. Breakwater creates and deletes
	// shares, and changes them. Do not set it.
	//
	// +optional
	ShareOf *ShareOf `json:"shareOf,omitempty"`
}

// CoreOutage defines what a cell does while it cannot reach the core cluster.
//
// +kubebuilder:validation:Enum=Deny;LocalShare
type CoreOutage string

// The values.
const (
	CoreOutageDeny       CoreOutage = "Deny"
	CoreOutageLocalShare CoreOutage = "LocalShare"
)

// ShareOf identifies the protector of a share.
//
// +kubebuilder:validation:XValidation:rule="self.cell == oldSelf.cell && self.name == oldSelf.name",message="cell and name are immutable"
// +kubebuilder:object:generate=false
type ShareOf struct {
	// Name is the name of the protector, in the namespace of the share.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID is the UID of the protector.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// FormerUID is the UID of the lost protector that this one replaces, if it does. A restore of the core may bring that one back.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	FormerUID string `json:"formerUID,omitempty"`

	// Core is the UID of the namespace kube-system of the protector's cluster. Several cores may have protectors of one name, each with a share
	// of its own.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Core string `json:"core,omitempty"`

	// Cell is the name of the Cell whose pods the share protects.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cell string `json:"cell"`

	// Closed makes the share admit no removal. It is closed before the protector gives the cell a share, and when it takes the share
	// back.
	//
	// +optional
	Closed bool `json:"closed,omitempty"`

	// FloorUnknown makes the share admit no removal while the floor of the protector is unknown, and afterwards until the shares of all cells
	// keep the floor.
	//
	// +optional
	FloorUnknown bool `json:"floorUnknown,omitempty"`

	// Recreated reports that the share replaces one that was lost, with reservations that are unknown. It is unset when the share opens.
	//
	// +optional
	Recreated bool `json:"recreated,omitempty"`

	// ConfirmedTerm is the termVersion that the counts of the share had when it was last opened. A share whose counts are void since a
	// later term has not been compared with its protector since the cluster of the cell was restored, and admits no removal.
	//
	// +optional
	ConfirmedTerm string `json:"confirmedTerm,omitempty"`

	// Held reports that the protector has a finalizer of Breakwater, so that it counts as lost, not as released, if it vanishes.
	//
	// +optional
	Held bool `json:"held,omitempty"`

	// Revision is a number that changes with each write of a step that moves shares.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// TargetRef names a workload in the namespace of the protector's name.
// +kubebuilder:object:generate=false
type TargetRef struct {
	// APIVersion of the workload, for example apps/v1.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`

	// Kind of the workload, for example Deployment.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`

	// Name of the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// TargetRemovalPolicy defines what happens to a protector when its workload or policy no longer exists.
//
// +kubebuilder:validation:Enum=Retain;Release
type TargetRemovalPolicy string

// The policies.
const (
	TargetRemovalRetain  TargetRemovalPolicy = "Retain"
	TargetRemovalRelease TargetRemovalPolicy = "Release"
)

// Criterion is the state in which a pod counts towards a floor.
//
// +kubebuilder:validation:Enum=Available;Ready;Running;Scheduled
type Criterion string

// The criteria, the narrowest first: each pod that meets one meets those after it.
const (
	CriterionAvailable Criterion = "Available"
	CriterionReady     Criterion = "Ready"
	CriterionRunning   Criterion = "Running"
	CriterionScheduled Criterion = "Scheduled"
)

// Pods returns a floor of n pods.
func Pods(n int32) *intstr.IntOrString {
	value := intstr.FromInt32(n)
	return &value
}

// AdmissionHistorySpec tunes how admitted removals are recorded.
type AdmissionHistorySpec struct {
	// MaxConcurrentLag is the maximum number of open reservations over all cells. 0 means no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	// +optional
	MaxConcurrentLag int32 `json:"maxConcurrentLag,omitempty"`

	// CompactThreshold is the maximum number of reservations of a cell that are stored as single buckets. Older reservations merge
	// into one bucket that keeps their number, times and identity, but not their pods' names. A higher value makes each status
	// write more expensive for all clients that watch the protector.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=5
	// +optional
	CompactThreshold *int32 `json:"compactThreshold,omitempty"`

	// UpdateTimeoutSeconds is the time in seconds within which a pod must become available again after an Update or a Resize.
	// After that its reservation is dropped, with an event.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=600
	// +optional
	UpdateTimeoutSeconds *int32 `json:"updateTimeoutSeconds,omitempty"`

	// AggregationRateMillis is the time in milliseconds for which an aggregator collects pod events before it writes them: at most
	// one write per cell in that time. While disruptionsAllowed is 0, it collects pods that become ready for a tenth of that time,
	// since a client may be waiting for them. A longer time means fewer writes, and budget that returns later. It never weakens
	// the floor.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +kubebuilder:default=1000
	// +optional
	AggregationRateMillis *int32 `json:"aggregationRateMillis,omitempty"`
}

// PodSelector selects pods or other objects by their labels, like a Kubernetes label selector: all of matchLabels and matchExpressions must match.
// It is a separate type so that its schema can be bounded and validated.
//
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue())",message="matchLabels has a key that is not a label key: use [prefix/]name of letters, digits, '-', '_' and '.'",fieldPath=".matchLabels"
// +kubebuilder:object:generate=false
type PodSelector struct {
	// MatchLabels are labels that the selected objects must have with exactly these values.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// MatchExpressions are requirements that the labels of the selected objects must meet.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	MatchExpressions []PodSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue = string

// PodSelectorRequirement is a requirement on one label.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",message="values must hold at least one value for In and NotIn, and none for Exists and DoesNotExist",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self.key).hasValue()",message="key must be a label key: [prefix/]name of letters, digits, '-', '_' and '.'",fieldPath=".key"
type PodSelectorRequirement struct {
	// Key is the label's key.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// Operator is the relation of the key to the values.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// Values are the label's values, for In and NotIn. Repeated values have no effect.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// PodProtectorStatus is the observed state of a protector. Webhooks and aggregators write it by compare-and-swap. A manual change
// can break the safety guarantee.
type PodProtectorStatus struct {
	// ObservedGeneration is the generation of the spec that the informational fields were computed from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// DesiredAvailable is the floor. It is informational: no decision reads it.
	//
	// +optional
	DesiredAvailable int32 `json:"desiredAvailable"`

	// ExpectedReplicas is the expected number of pods over all cells. It is informational: no decision reads it. It is unset if
	// the floor does not depend on it, or if it is unknown.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// DisruptionsAllowed is the number of removals that would be admitted now. It is informational: no decision reads it. With
	// spread.tolerateDomainLoss, it is the number of pods of one domain in one cell that could be removed, for the domain and cell
	// with the largest number.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed"`

	// Summary has the sums over all cells. It is informational: no decision reads it.
	//
	// +optional
	Summary Summary `json:"summary,omitempty"`

	// Spread is the distribution of the pods, if spec.spread is set. It is informational: no decision reads it.
	//
	// +optional
	Spread *SpreadStatus `json:"spread,omitempty"`

	// Wanted is the number of removals that a share has denied since it last had budget. Other protectors do not set it.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Wanted int32 `json:"wanted,omitempty"`

	// Cells has the counts and reservations of each cell.
	//
	// +listType=map
	// +listMapKey=cellID
	// +optional
	Cells []PodProtectorCell `json:"cells,omitempty"`

	// Conditions are Ready, SpreadSatisfied, ForceDeletable, ExpectationBelowPods, PodsMatched and Guarded, written by aggregators, and
	// TargetResolved, written by the generator.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Summary has the sums over the cells of a protector.
// +kubebuilder:object:generate=false
type Summary struct {
	// Total is the number of pods that the selector selects.
	Total int32 `json:"total"`
	// Available is the number of pods that meet the criterion in the newest snapshots.
	Available int32 `json:"available"`
	// Reserved is the number of open reservations.
	Reserved int32 `json:"reserved"`
	// EstimatedAvailable is available minus reserved.
	EstimatedAvailable int32 `json:"estimatedAvailable"`
	// Ready is the number of pods that are Ready.
	Ready int32 `json:"ready"`
	// Running is the number of pods in phase Running.
	Running int32 `json:"running"`
	// Scheduled is the number of pods that have a node and have not finished.
	Scheduled int32 `json:"scheduled"`
}

// PodProtectorCell has the counts and reservations of one cell. It is atomic for server-side apply: to track the owner of each
// field would take the API server a fifth of each write while there are few reservations.
//
// +structType=atomic
type PodProtectorCell struct {
	// CellID is the name of the Cell.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CellID string `json:"cellID"`

	// Discount is the reason why the pods of the cell do not count for removals in other cells. It is unset if they count.
	//
	// +optional
	Discount Discount `json:"discount,omitempty"`

	// Share is the share of the floor on which the cell decides alone, in its own cluster. It is unset if the cell has none.
	//
	// +optional
	Share *CellShare `json:"share,omitempty"`

	// Aggregation has the counts of the newest snapshot. The cell's aggregator owns it.
	Aggregation Aggregation `json:"aggregation"`

	// AdmissionHistory has the open reservations. Webhooks add reservations, and the cell's aggregator settles them.
	//
	// +optional
	AdmissionHistory AdmissionHistory `json:"admissionHistory,omitempty"`
}

// CellShare is the share of a cell, as the core records it. Only the aggregator that leads the cell writes it.
// +kubebuilder:object:generate=false
type CellShare struct {
	// Floor is the number of pods that the cell keeps, whatever other cells do.
	//
	// +kubebuilder:validation:Minimum=0
	Floor int32 `json:"floor"`

	// Reserved is the number of open reservations of the share, at the time of the counts.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Reserved int32 `json:"reserved,omitempty"`

	// Wanted is the number of removals that the share has denied because other cells have the budget. It is 0 once the cell has budget
	// again.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Wanted int32 `json:"wanted,omitempty"`

	// Revision is a number that changes with each write of a step that moves shares.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// TermVersion is the version of the core at the start of the leadership that recorded the share. After a restore of the core, earlier
	// ones are not relied on. It is empty in a protector that was recreated, until the share is recorded again.
	//
	// +optional
	TermVersion string `json:"termVersion,omitempty"`
}

// Discount is the reason why the pods of a cell do not count for removals in other cells.
//
// +kubebuilder:validation:Enum=Stale;Draining;Cleared
type Discount string

// The reasons.
const (
	// DiscountStale means that the aggregator has not reported for staleAfter, for a Cell with whenStale Discount. The topology
	// controller writes it, and the aggregator removes it with its next write. It changes nothing for removals in the cell itself.
	DiscountStale Discount = "Stale"
	// DiscountDraining means that the Cell is being deleted. The entry is deleted once all reservations are settled, and no new
	// ones are made. The aggregator writes it.
	DiscountDraining Discount = "Draining"
	// DiscountCleared means that a user cleared the counts and reservations of the entry. Removals that were admitted before are
	// unknown, so the aggregator counts again only after the admission deadline has passed since it observed this value. The
	// topology controller writes it.
	DiscountCleared Discount = "Cleared"
)

// Aggregation has the counts of one snapshot of one cell. Only the aggregator that leads the cell writes it.
type Aggregation struct {
	// TotalReplicas is the number of pods that the selector selects.
	//
	// +kubebuilder:validation:Minimum=0
	TotalReplicas int32 `json:"totalReplicas"`
	// AvailableReplicas is the number of pods that have been Ready for minReadySeconds.
	//
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`
	// ReadyReplicas is the number of pods that are Ready.
	//
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`
	// RunningReplicas is the number of pods in phase Running.
	//
	// +kubebuilder:validation:Minimum=0
	RunningReplicas int32 `json:"runningReplicas"`
	// ScheduledReplicas is the number of pods that have a node and have not finished.
	//
	// +kubebuilder:validation:Minimum=0
	ScheduledReplicas int32 `json:"scheduledReplicas"`

	// CountedReplicas is the number of pods that count towards the floor: those that meet their own criterion, or else the
	// protector's. Decisions use only this number.
	//
	// +kubebuilder:validation:Minimum=0
	CountedReplicas int32 `json:"countedReplicas"`

	// ForceDeletableReplicas is the number of live pods with the annotation breakwater.dev/force-delete. Their removal is admitted
	// regardless of the floor.
	//
	// +optional
	ForceDeletableReplicas int32 `json:"forceDeletableReplicas,omitempty"`

	// ExpectedReplicas is the number of replicas of the workloads that own pods of the protector in this cell. It is unset if the
	// floor does not depend on it, or if the aggregator cannot determine it.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// ExpectedReplicasProblem is the reason why the aggregator cannot determine expectedReplicas.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExpectedReplicasProblem string `json:"expectedReplicasProblem,omitempty"`

	// Workloads are the workloads whose replicas are expected in this cell: the top-level owners of the pods that the selector
	// selects. A workload stays in the list when it has no pods left. A workload that no longer exists keeps its last size until
	// another workload of its kind and name exists, targetRemovalPolicy is Release, or the annotation
	// breakwater.dev/confirm-release on the protector confirms the decrease. If there are more than 64, the last entry, without a
	// kind, has the sum of workloads that have no pods.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Workloads []ExpectedWorkload `json:"workloads,omitempty"`

	// Target is the workload that targetRef names in this cell, which determines the protected pods. It is unset if there is no
	// such workload and none is retained.
	//
	// +optional
	Target *Target `json:"target,omitempty"`

	// TargetProblem is the reason why the aggregator cannot determine the workload of targetRef. If it never could, it counts no
	// pods.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TargetProblem string `json:"targetProblem,omitempty"`

	// Spread is the distribution of the counted pods over the domains of spec.spread. It is unset if spec.spread is unset, or if
	// the cell itself is the domain.
	//
	// +optional
	Spread *CellDomains `json:"spread,omitempty"`

	// Exempt is the reason why the API server of the cell does not call the webhook for removals in the protector's namespace. It is
	// unset if the API server does, or if the aggregator has not determined it.
	//
	// +optional
	Exempt Exemption `json:"exempt,omitempty"`

	// ExemptProblem is the reason why the aggregator cannot determine whether the API server calls the webhook.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExemptProblem string `json:"exemptProblem,omitempty"`

	// CountedSpec is a hash of the parts of the spec that the counts depend on. Decisions ignore counts made by another spec: the
	// cell counts as zero until its aggregator has counted again. It is empty if the aggregator cannot count.
	CountedSpec string `json:"countedSpec"`

	// InTransition reports that the spec has changed, and that removals admitted by an earlier spec may still be in progress.
	// Until the admission deadline has passed, countedReplicas includes only pods that also count by the earlier spec, and no pods
	// if the aggregator does not know the earlier spec.
	//
	// +optional
	InTransition bool `json:"inTransition,omitempty"`

	// SelectedSpec is a hash of the parts of the spec that select pods. The aggregator keeps workloads and target while the hash
	// is the same.
	//
	// +optional
	SelectedSpec string `json:"selectedSpec,omitempty"`

	// SnapshotVersion is the resourceVersion of the cell's pods at which the counts were taken.
	SnapshotVersion string `json:"snapshotVersion"`

	// SettledVersion is a later resourceVersion of the cell's pods, at which a live read showed that pods no longer exist, so that
	// their reservations were settled. It is unset once the snapshot is as new. A later leader whose snapshot is older than one of the
	// versions counts only pods that a live read shows unchanged.
	//
	// +optional
	SettledVersion string `json:"settledVersion,omitempty"`

	// LastEventTime is the aggregator's wall clock time when it took the counts. Webhooks evaluate minReadySeconds no earlier than
	// this time, so that each counted pod is also charged.
	LastEventTime metav1.MicroTime `json:"lastEventTime"`

	// Epoch and holder identify the leadership that wrote the counts. A lower pair of (epoch, snapshotVersion) never replaces a
	// higher one.
	Epoch int64 `json:"epoch"`
	// Holder is the identity of the aggregator that leads the cell.
	Holder string `json:"holder"`

	// Void reports that the counts are invalid, because the protector was recreated or the core was restored from a backup. The
	// aggregator clears it after removals that may be in progress have ended and it has counted again.
	//
	// +optional
	Void bool `json:"void,omitempty"`

	// KnowsEscrows reports that the aggregator ends the escrows of replicas that have stopped. In other cells, webhooks make none.
	//
	// +optional
	KnowsEscrows bool `json:"knowsEscrows,omitempty"`

	// TermVersion is the resourceVersion of the core at which the leadership began. After a restore of the core from a backup,
	// counts of earlier leaderships are invalid.
	//
	// +optional
	TermVersion string `json:"termVersion,omitempty"`
}

// Exemption is the reason why an API server does not call the webhook for removals in a namespace.
//
// +kubebuilder:validation:Enum=Label;NamespaceSelector;NoWebhook;NotLabeled
type Exemption string

// The reasons.
const (
	// ExemptLabel means that the namespace has the label breakwater.dev/exempt=true.
	ExemptLabel Exemption = "Label"
	// ExemptNamespaceSelector means that the namespaceSelector of the webhook excludes the namespace.
	ExemptNamespaceSelector Exemption = "NamespaceSelector"
	// ExemptNoWebhook means that no webhook configuration calls the webhook for removals in the cell.
	ExemptNoWebhook Exemption = "NoWebhook"
	// ExemptNotLabeled means that the namespace does not have the label breakwater.dev/protected=true yet, or has had it for so short
	// a time that the API server may not use it yet.
	ExemptNotLabeled Exemption = "NotLabeled"
)

// Target is the workload that targetRef names, in one cell.
// +kubebuilder:object:generate=false
type Target struct {
	// UID of the workload.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
	// Selector selects its pods, in the syntax of kubectl's --selector.
	//
	// +kubebuilder:validation:MaxLength=65536
	Selector string `json:"selector"`
	// Replicas is its number of replicas, or the last observed one if it no longer exists.
	//
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Gone reports that the workload no longer exists and is retained.
	//
	// +optional
	Gone bool `json:"gone,omitempty"`
}

// ExpectedWorkload is a workload and its expected number of pods.
// +kubebuilder:object:generate=false
type ExpectedWorkload struct {
	// APIVersion of the workload, for example apps/v1.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the workload, for example Deployment.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the workload.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the workload.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Replicas is its number of replicas, or the last observed one if it no longer exists.
	//
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Gone reports that the workload no longer exists.
	//
	// +optional
	Gone bool `json:"gone,omitempty"`
}

// AdmissionHistory has the open reservations of a protector in one cell, oldest first.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.escrows) || size(oldSelf.escrows) == 0 || has(self.escrows)",message="there are escrows, and the component that writes this does not know them: upgrade it"
type AdmissionHistory struct {
	// Buckets are the single reservations that compactThreshold allows (at most 1,000), the merged ones, and reservations that can
	// still be given back. The latter are merged as well if there are more than 2,000 buckets.
	//
	// +kubebuilder:validation:MaxItems=2100
	// +listType=atomic
	// +optional
	Buckets []Bucket `json:"buckets,omitempty"`

	// Escrows are the reservations that replicas of the webhook have made in advance. They reduce the budget like those of buckets. The list stays for
	// one write after its last escrow has ended: a component that does not know escrows drops it, and the API server rejects that.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=holder
	// +optional
	Escrows []Escrow `json:"escrows,omitzero"`
}

// Escrow is a number of reservations that one replica of the webhook has made in advance, in a storm or far from the core. The replica admits as many
// removals at once, and replaces them by reservations of the pods in its next write. The aggregator drops an escrow whose holder has stopped.
type Escrow struct {
	// Holder identifies the process of the replica, and ends with its address if there are other replicas.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Holder string `json:"holder"`
	// Count is the number of reservations.
	//
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
	// Stamp is raised by each write of the holder. An aggregator times an escrow from when it first sees its stamp.
	//
	// +kubebuilder:validation:Minimum=1
	Stamp int64 `json:"stamp"`
}

// ContainerRestarts is the restart count of a container of a pod.
// +kubebuilder:object:generate=false
type ContainerRestarts struct {
	// Name of the container.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Restarts is the restart count.
	//
	// +kubebuilder:validation:Minimum=0
	Restarts int32 `json:"restarts"`
}

// Operation is an operation that removes a pod, makes it unavailable for a while, or removes it from a protector's coverage.
//
// +kubebuilder:validation:Enum=Delete;Evict;Update;Resize;Relabel
type Operation string

// The operations that can be guarded.
const (
	OperationDelete  Operation = "Delete"
	OperationEvict   Operation = "Evict"
	OperationUpdate  Operation = "Update"
	OperationResize  Operation = "Resize"
	OperationRelabel Operation = "Relabel"
)

// DefaultOperations returns the operations that a protector without spec.operations guards. It is the default of the CRD.
func DefaultOperations() []Operation {
	return []Operation{OperationDelete, OperationEvict, OperationRelabel}
}

// Bucket is one reservation, or several merged reservations. A single reservation has podUID, counter 1 and no podUIDHashes. A
// merged bucket has no podUID, and 8 bytes of podUIDHashes for each of counter. The API server does not validate this.
type Bucket struct {
	// StartTime is the time at which the reservation was made or renewed. For a merged bucket, it is the earliest of these times.
	StartTime metav1.MicroTime `json:"startTime"`

	// EndTime is the latest time of a merged bucket. It is unset for a single reservation.
	//
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`

	// Counter is the number of reservations in the bucket.
	//
	// +kubebuilder:validation:Minimum=1
	Counter int32 `json:"counter"`

	// PodUID is the UID of the pod of a single reservation. It is unset in a merged bucket.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// PodName is the name of the pod of a single reservation. It is unset in a merged bucket.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// Operation that was admitted. It is unset in a merged bucket, unless all of its reservations are for relabels.
	//
	// +optional
	Operation Operation `json:"operation,omitempty"`

	// PodVersion is the reviewed resourceVersion of the pod, for the reservation of a relabel. For a merged bucket, it is the
	// highest of them. The API server stores the change only while the pod has that version.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	PodVersion int64 `json:"podVersion,omitempty"`

	// Generation and containers define when the update of a reservation is done: when the pod's status has observed that
	// generation, the containers have been restarted that often, and the pod is available.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// FirstGeneration is the generation of the earliest of several updates. It is unset if there is only one.
	//
	// +optional
	FirstGeneration int64 `json:"firstGeneration,omitempty"`
	// Containers are the containers that an update restarts, with the restart counts that they must reach.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Containers []ContainerRestarts `json:"containers,omitempty"`

	// Accounted reports that the counts of the cell show the pod of an update as not available, so that the reservation does not
	// reduce the budget a second time. The aggregator writes it together with the counts.
	//
	// +optional
	Accounted bool `json:"accounted,omitempty"`

	// RevocableUntil is the time until which the reservation can be given back, because other protectors of the pod have not been
	// checked. Until then it is not merged, since a merged reservation cannot be distinguished from its renewal.
	//
	// +optional
	RevocableUntil *metav1.MicroTime `json:"revocableUntil,omitempty"`

	// Token identifies a single reservation to the requests that may give it back. No other reservation of the pod has it. It is
	// unset if no request may give it back.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Token string `json:"token,omitempty"`

	// Holders is the number of requests that made or renewed the reservation and have not given it back. The reservation is
	// dropped when the last of them gives it back. It is unset if there was only one request, or if no request may give it back.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Holders int32 `json:"holders,omitempty"`

	// PodUIDHashes identifies the reservations of a merged bucket: 8 bytes for each, in the order of their times.
	//
	// +kubebuilder:validation:Type=string
	// +optional
	PodUIDHashes PackedBytes `json:"podUIDHashes,omitempty"`

	// PodTimes has the times at which the reservations of a merged bucket were made or renewed, in the order of podUIDHashes. Each
	// run of equal times has two unsigned varints: the number of reservations, and the microseconds since the previous run or
	// since startTime. It is unset if all times equal endTime, and in buckets that versions without this field wrote.
	//
	// +kubebuilder:validation:Type=string
	// +optional
	PodTimes PackedBytes `json:"podTimes,omitempty"`
}

// PackedBytes are bytes that JSON has as standard base64. The schema does not check that, because it would cost the API server as much as the rest of a
// large write. A string that is no base64 decodes as no bytes: an error would keep every client from decoding the list of protectors.
//
// +kubebuilder:validation:Type=string
type PackedBytes []byte

// MarshalJSON implements json.Marshaler.
func (b PackedBytes) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(b)) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *PackedBytes) UnmarshalJSON(text []byte) error {
	var decoded []byte
	if err := json.Unmarshal(text, &decoded); err != nil {
		decoded = nil
	}
	*b = decoded
	return nil
}
