package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodProtector states how many pods of an application must stay available over all cells. It covers the pods
// of its own namespace's name in every cell.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ppr,categories=breakwater
// +kubebuilder:printcolumn:name="Floor",type=integer,JSONPath=`.status.desiredAvailable`,description="Pods that must stay available"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.summary.available`,description="Available pods in all cells"
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.summary.reserved`,description="Removals that were admitted and are not yet seen"
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

// PodProtectorSpec is what the user, or the generator, asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="give either minAvailable or maxUnavailable",fieldPath=".minAvailable"
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.targetRef)",message="give either selector or targetRef",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="!has(self.targetRef) || !has(self.aggregationSelector)",message="aggregationSelector goes with selector; the pods of a targetRef are counted as they are protected",fieldPath=".aggregationSelector"
type PodProtectorSpec struct {
	// Selector chooses the pods that are protected, and counted, in the namespace of the same name in every
	// cell. The empty selector chooses all pods of the namespace. It is one value to server-side apply: a label
	// that somebody adds by hand would otherwise narrow the selector and stay when its owner applies again. It and
	// targetRef exclude each other.
	//
	// +structType=atomic
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`

	// TargetRef names a workload, of a kind with a scale subresource, whose pods are protected and counted: in every
	// cell those that the selector of its scale chooses there. What it wants, over all cells, is what is expected. Where a
	// cell has no such workload nothing is protected; where one was seen and is gone, targetRemovalPolicy decides.
	//
	// +structType=atomic
	// +optional
	TargetRef *TargetRef `json:"targetRef,omitempty"`

	// AggregationSelector chooses the pods that are counted, where those are more than the protected ones: all that the
	// selector chooses and others, whose removal costs nothing and is never refused, but which keep the application
	// available as long as they are there. Without it the selector's pods are counted. It is one value to server-side
	// apply, as the selector is.
	//
	// +structType=atomic
	// +optional
	AggregationSelector *PodSelector `json:"aggregationSelector,omitempty"`

	// ExemptPodSelector chooses pods, of those that the selector chooses, that are neither protected nor counted.
	// Without it there are none. It is one value to server-side apply, as the selector is.
	//
	// +structType=atomic
	// +optional
	ExemptPodSelector *PodSelector `json:"exemptPodSelector,omitempty"`

	// MinAvailable is the floor: the pods that must stay available over all cells, as a number, or as a percentage of
	// the pods that are expected, rounded up. 0 refuses nothing.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable puts the floor so many below the pods that are expected, over all cells: as a number, or as a
	// percentage of them, rounded up. When more are given than are expected the floor is 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// ExpectedReplicas is how many pods there should be over all cells, which percentages and maxUnavailable are
	// reckoned from. Without it that is what targetRef wants, or else the sum of the replicas of the workloads that own
	// the pods, each once, over all cells. Pods that nobody owns, and workloads without a scale subresource, do not tell:
	// they need this field.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// TargetRemovalPolicy is what becomes of a workload's share of the pods that are expected when it is gone while pods of
	// it are still there: Retain goes on expecting them, since that is what an accident looks like, Release does not.
	// Of a targetRef that is gone, Retain goes on protecting the pods that it had chosen, and expecting as many.
	//
	// +kubebuilder:default=Retain
	// +optional
	TargetRemovalPolicy TargetRemovalPolicy `json:"targetRemovalPolicy,omitempty"`

	// MinReadySeconds is how long a pod must have been Ready before it counts as available.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// Criterion is what a pod must be to count towards the floor: Available is Ready for minReadySeconds, Ready has
	// the Ready condition, Running is in phase Running, Scheduled has a node and has not finished. A removal of a pod
	// that does not count costs nothing. Pods can have a criterion of their own by the annotation
	// breakwater.dev/criterion.
	//
	// +kubebuilder:default=Available
	// +optional
	Criterion Criterion `json:"criterion,omitempty"`

	// Operations are those that cost budget. A Relabel is a change of a pod's labels, or of its annotation
	// breakwater.dev/criterion, after which the pod is not covered or not counted any more. An Update is a change of a pod's
	// spec that can make the pod unavailable, as of the image of a container in place; a Resize is one of its resources that
	// restarts a container. Updates and resizes are charged until the pod was seen updated and available again.
	//
	// +kubebuilder:default={Delete,Evict,Relabel}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Operations []Operation `json:"operations,omitempty"`

	// Spread says how the pods are to be shared out among zones, other groups of nodes, or cells. It is one value to server-side
	// apply. Without it nothing is said.
	//
	// +structType=atomic
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// AdmissionHistory tunes the bookkeeping of admitted removals.
	//
	// +kubebuilder:default={}
	// +optional
	AdmissionHistory AdmissionHistorySpec `json:"admissionHistory,omitempty"`
}

// TargetRef names a workload in the namespace of the protector's name.
type TargetRef struct {
	// APIVersion of the workload, as apps/v1.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`

	// Kind of the workload, as Deployment.
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

// TargetRemovalPolicy is what becomes of a protector when what it protects is gone.
//
// +kubebuilder:validation:Enum=Retain;Release
type TargetRemovalPolicy string

// The policies.
const (
	TargetRemovalRetain  TargetRemovalPolicy = "Retain"
	TargetRemovalRelease TargetRemovalPolicy = "Release"
)

// Criterion is what a pod must be to count towards a floor.
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

// Pods is a floor of that many pods.
func Pods(n int32) *intstr.IntOrString {
	value := intstr.FromInt32(n)
	return &value
}

// AdmissionHistorySpec tunes the bookkeeping of admitted removals.
type AdmissionHistorySpec struct {
	// MaxConcurrentLag is how many reservations may be open at once, over all cells; 0 is no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=0
	// +optional
	MaxConcurrentLag int32 `json:"maxConcurrentLag,omitempty"`

	// CompactThreshold is how many reservations of a cell are kept one by one; older ones merge into one
	// bucket that keeps their number and identity and loses only their pods' names. Each that is kept one by one
	// makes every write of the status a little dearer for all who watch it.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=20
	// +optional
	CompactThreshold *int32 `json:"compactThreshold,omitempty"`

	// UpdateTimeoutSeconds is how long a pod may take to become available again after an Update or a Resize, before the
	// reservation of that is given up, with an event.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=600
	// +optional
	UpdateTimeoutSeconds *int32 `json:"updateTimeoutSeconds,omitempty"`

	// AggregationRateMillis is how long an aggregator gathers pod events before it writes them, in milliseconds: at most
	// one write per cell in that time. Pods that become ready while disruptionsAllowed is 0 are gathered for a tenth of it,
	// since somebody may be waiting for them. Longer means fewer writes, and budget that returns later; it never weakens
	// the floor.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +kubebuilder:default=1000
	// +optional
	AggregationRateMillis *int32 `json:"aggregationRateMillis,omitempty"`
}

// PodSelector chooses pods by their labels, as a Kubernetes label selector does: all of matchLabels and
// matchExpressions must hold. It is a type of its own so that its schema can be bounded and checked.
//
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue())",message="matchLabels has a key that is not a label key: use [prefix/]name of letters, digits, '-', '_' and '.'",fieldPath=".matchLabels"
// +kubebuilder:object:generate=false
type PodSelector struct {
	// MatchLabels are labels that a pod must carry with just these values.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// MatchExpressions are requirements that a pod's labels must meet.
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

// PodSelectorRequirement is one requirement on a label.
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

	// Values are the label's values, for In and NotIn; a repeated value means nothing more.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// PodProtectorStatus is the state of a protector. Webhooks and aggregators write it, always by
// compare-and-swap; a hand that edits it can break the promise.
type PodProtectorStatus struct {
	// ObservedGeneration is the generation of the spec that the informational fields were computed from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// DesiredAvailable is the floor. It is informational: no decision reads it.
	//
	// +optional
	DesiredAvailable int32 `json:"desiredAvailable"`

	// ExpectedReplicas is how many pods there should be over all cells. It is informational: no decision reads it. Unset when the
	// floor is not derived from that, or when it is not known.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// DisruptionsAllowed is how many removals would be admitted now. It is informational: no decision reads it. Where the loss of a
	// domain is to be tolerated it is how many pods of one domain in one cell may go, whichever has most that may.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed"`

	// Summary adds up the cells. It is informational: no decision reads it.
	//
	// +optional
	Summary Summary `json:"summary,omitempty"`

	// Spread is how the pods are distributed, where spec.spread asks for that. It is informational: no decision reads it.
	//
	// +optional
	Spread *SpreadStatus `json:"spread,omitempty"`

	// Cells is what each cell adds.
	//
	// +listType=map
	// +listMapKey=cellID
	// +optional
	Cells []PodProtectorCell `json:"cells,omitempty"`

	// Conditions are Ready, SpreadSatisfied and ForceDeletable, written by aggregators, and TargetResolved, written by the generator.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Summary adds up the cells of a protector.
type Summary struct {
	// Total is the number of pods that the selector chooses.
	Total int32 `json:"total"`
	// Available is the number of pods that meet the criterion in the newest snapshots.
	Available int32 `json:"available"`
	// Reserved is the number of open reservations.
	Reserved int32 `json:"reserved"`
	// EstimatedAvailable is available less reserved.
	EstimatedAvailable int32 `json:"estimatedAvailable"`
	// Ready is the number of pods that are Ready.
	Ready int32 `json:"ready"`
	// Running is the number of pods in phase Running.
	Running int32 `json:"running"`
	// Scheduled is the number of pods that have a node and have not finished.
	Scheduled int32 `json:"scheduled"`
}

// PodProtectorCell is what one cell adds to a protector. It has one owner as a whole: to track who owns which field of it takes the
// apiserver a fifth of each write, while little is reserved.
//
// +structType=atomic
type PodProtectorCell struct {
	// CellID is the name of the Cell.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CellID string `json:"cellID"`

	// Discount is why the pods of the cell count for nothing in other cells; unset when they count.
	//
	// +optional
	Discount Discount `json:"discount,omitempty"`

	// Aggregation is the newest snapshot's counts. Owned by the cell's aggregator.
	Aggregation Aggregation `json:"aggregation"`

	// AdmissionHistory holds the open reservations: webhooks add, the cell's aggregator settles.
	//
	// +optional
	AdmissionHistory AdmissionHistory `json:"admissionHistory,omitempty"`
}

// Discount is why the pods of a cell count for nothing in other cells.
//
// +kubebuilder:validation:Enum=Stale;Draining;Cleared
type Discount string

// The reasons.
const (
	// DiscountStale tells that the aggregator has been silent for long, of a Cell whose whenStale is Discount. Written by
	// the topology controller, and taken back by the aggregator with its next write. In the cell itself nothing changes.
	DiscountStale Discount = "Stale"
	// DiscountDraining tells that the Cell is being deleted, and the entry with it as soon as all reservations are settled:
	// no more are made. Written by the aggregator.
	DiscountDraining Discount = "Draining"
	// DiscountCleared tells that an operator has cleared the entry of its counts and reservations. The aggregator counts
	// anew when the admission deadline has passed since it saw this: what was admitted before, nobody knows. Written by the
	// topology controller.
	DiscountCleared Discount = "Cleared"
)

// Aggregation is the counts of one snapshot of one cell. Only the aggregator that leads the cell writes it.
type Aggregation struct {
	// TotalReplicas are the pods that the selector chooses.
	//
	// +kubebuilder:validation:Minimum=0
	TotalReplicas int32 `json:"totalReplicas"`
	// AvailableReplicas are those that are Ready for minReadySeconds.
	//
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`
	// ReadyReplicas are those that are Ready.
	//
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`
	// RunningReplicas are those in phase Running.
	//
	// +kubebuilder:validation:Minimum=0
	RunningReplicas int32 `json:"runningReplicas"`
	// ScheduledReplicas are those that have a node and have not finished.
	//
	// +kubebuilder:validation:Minimum=0
	ScheduledReplicas int32 `json:"scheduledReplicas"`

	// CountedReplicas is how many pods count towards the floor: those that meet their own criterion, or else the
	// protector's. Decisions go by this number alone.
	//
	// +kubebuilder:validation:Minimum=0
	CountedReplicas int32 `json:"countedReplicas"`

	// ForceDeletableReplicas is how many of the pods that live have the annotation breakwater.dev/force-delete: their removal is admitted
	// whatever the floor.
	//
	// +optional
	ForceDeletableReplicas int32 `json:"forceDeletableReplicas,omitempty"`

	// ExpectedReplicas is how many pods the workloads want that own pods of the protector in this cell. Unset when the
	// protector's floor is not derived from that, or when the aggregator cannot determine it.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	ExpectedReplicas *int32 `json:"expectedReplicas,omitempty"`

	// ExpectedReplicasProblem is why it cannot be found out.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExpectedReplicasProblem string `json:"expectedReplicasProblem,omitempty"`

	// Workloads are those whose replicas are expected in this cell: the top-level owners of the pods that the selector chooses. A
	// workload stays in the list when its pods are gone. One that does not exist any more stays at its last size until another of
	// its kind and name exists, targetRemovalPolicy is Release, or the annotation breakwater.dev/confirm-release of the
	// protector confirms it. If there are more than 64, the last entry, without a kind, adds up workloads that have no pods.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Workloads []ExpectedWorkload `json:"workloads,omitempty"`

	// Target is what targetRef names in this cell, since which pods are protected depends on that. Unset when there is no
	// such workload, and none was seen that is to be retained.
	//
	// +optional
	Target *Target `json:"target,omitempty"`

	// TargetProblem is why it cannot be found out now what targetRef names. Where it never could, nothing is counted.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TargetProblem string `json:"targetProblem,omitempty"`

	// Spread is how the pods that count are shared out among the domains of spec.spread. Unset when that does not ask, or when the
	// cell itself is the domain.
	//
	// +optional
	Spread *CellDomains `json:"spread,omitempty"`

	// CountedSpec is a hash of the parts of the spec that the counts depend on. Counts made by another spec
	// are worth nothing for a decision: the cell then counts as zero until its aggregator has counted anew. Empty where
	// the aggregator cannot count.
	CountedSpec string `json:"countedSpec"`

	// InTransition reports that the spec has changed, and that removals which were admitted by an earlier spec may still be under way. Until
	// the admission deadline has passed, CountedReplicas has only the pods that count by the earlier spec as well; none when the
	// aggregator does not know it.
	//
	// +optional
	InTransition bool `json:"inTransition,omitempty"`

	// SelectedSpec is a hash of the parts of the spec that choose pods. Workloads and Target are remembered as long as it is the same.
	//
	// +optional
	SelectedSpec string `json:"selectedSpec,omitempty"`

	// SnapshotVersion is the resourceVersion of the cell's pods that the counts were taken at.
	SnapshotVersion string `json:"snapshotVersion"`

	// SettledVersion is a later version of the cell's pods at which a live read showed pods to be gone, whose
	// reservations were settled by that. Unset when the snapshot has come that far itself. A later leader writes
	// nothing of its own until its snapshot is as new as both versions.
	//
	// +optional
	SettledVersion string `json:"settledVersion,omitempty"`

	// LastEventTime is the aggregator's wall clock when it took the counts. Webhooks judge minReadySeconds no
	// earlier than this, so that a pod that was counted is also charged.
	LastEventTime metav1.MicroTime `json:"lastEventTime"`

	// Epoch and Holder name the leadership that wrote the counts. A lower pair of (epoch, snapshotVersion)
	// never replaces a higher one.
	Epoch int64 `json:"epoch"`
	// Holder is the aggregator that leads the cell.
	Holder string `json:"holder"`

	// Void tells that the counts are worth nothing, since the protector was made anew or the core restored from a backup, until
	// the aggregator has waited for what may still be under way and counted anew.
	//
	// +optional
	Void bool `json:"void,omitempty"`

	// TermVersion is the resourceVersion of the core that the leadership began with. When the core was restored from a
	// backup, counts of an earlier one are worth nothing.
	//
	// +optional
	TermVersion string `json:"termVersion,omitempty"`
}

// Target is the workload that a protector names, in one cell.
type Target struct {
	// UID of the workload.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
	// Selector chooses its pods, in the notation of kubectl's --selector.
	//
	// +kubebuilder:validation:MaxLength=65536
	Selector string `json:"selector"`
	// Replicas are those that it wants, or wanted when it was seen last.
	//
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Gone tells that it is retained: it is not there any more.
	//
	// +optional
	Gone bool `json:"gone,omitempty"`
}

// ExpectedWorkload is a workload, and the pods that are expected of it.
type ExpectedWorkload struct {
	// APIVersion of the workload, as apps/v1.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the workload, as Deployment.
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
	// Replicas are the pods that it wants, or wanted when it was seen last.
	//
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Gone reports that it does not exist any more.
	//
	// +optional
	Gone bool `json:"gone,omitempty"`
}

// AdmissionHistory holds the open reservations of a protector in one cell, oldest first.
type AdmissionHistory struct {
	// Buckets are at most 1,000 that compactThreshold keeps, a merged one, and those that may still be given back,
	// which are merged as well when there are more than 2,000 in all.
	//
	// +kubebuilder:validation:MaxItems=2100
	// +listType=atomic
	// +optional
	Buckets []Bucket `json:"buckets,omitempty"`
}

// ContainerRestarts is how often a container of a pod has been restarted.
type ContainerRestarts struct {
	// Name of the container.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Restarts are how often it has been restarted.
	//
	// +kubebuilder:validation:Minimum=0
	Restarts int32 `json:"restarts"`
}

// Operation is the way in which a pod is removed, made unavailable for a while, or taken out of a protector's coverage.
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

// DefaultOperations are the operations that a protector guards when it lists none. It is the default of the CRD.
func DefaultOperations() []Operation {
	return []Operation{OperationDelete, OperationEvict, OperationRelabel}
}

// Bucket is one reservation, or several that Compact merged. It is either single, with podUID, counter 1 and no
// podUIDHashes, or merged, with no podUID and 8 bytes of podUIDHashes for each of counter. No rule of CEL can say so:
// the apiserver reads bytes for CEL as URL base64, and Go writes standard base64.
type Bucket struct {
	// StartTime is when the reservation was made or renewed; of a merged bucket, the earliest of them.
	StartTime metav1.MicroTime `json:"startTime"`

	// EndTime is the latest of a merged bucket's times; unset for a single reservation.
	//
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`

	// Counter is how many reservations the bucket holds.
	//
	// +kubebuilder:validation:Minimum=1
	Counter int32 `json:"counter"`

	// PodUID and PodName are those of a single reservation; unset in a merged bucket.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// PodName is the name of the pod.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// Operation that was admitted. A merged bucket has none, unless all of its reservations are of relabels.
	//
	// +optional
	Operation Operation `json:"operation,omitempty"`

	// PodVersion is set on the reservation of a relabel: the resourceVersion of the pod that was reviewed, and of a merged
	// bucket the highest. The API server stores the change only while the pod has that version.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	PodVersion int64 `json:"podVersion,omitempty"`

	// Generation and Containers tell, of the reservation of an update, when it is done: when the pod's status is of that
	// generation, these containers have been restarted so often, and the pod is available. FirstGeneration is that of the
	// earliest of several updates, unset when there is one.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// FirstGeneration is that of the earliest of several updates.
	//
	// +optional
	FirstGeneration int64 `json:"firstGeneration,omitempty"`
	// Containers are those that an update restarts, and how often they must have been.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Containers []ContainerRestarts `json:"containers,omitempty"`

	// Accounted is set on the reservation of an update while the counts of its cell show the pod as not available: it then
	// does not reduce the budget a second time. Written by the aggregator, with the counts.
	//
	// +optional
	Accounted bool `json:"accounted,omitempty"`

	// RevocableUntil is set on a reservation that may still be given back, since other protectors of the pod have
	// not all been asked yet. Until then it is not merged: a merged one could not be told from its renewal.
	//
	// +optional
	RevocableUntil *metav1.MicroTime `json:"revocableUntil,omitempty"`

	// Token is what those who may give a single reservation back know it by: its maker has drawn it, and no other
	// reservation of the pod has it. Unset when nobody may.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Token string `json:"token,omitempty"`

	// Holders is how many requests have made or renewed the reservation and have not given it back; it goes when the
	// last one does. Unset while there was only one, and when nobody may give it back.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Holders int32 `json:"holders,omitempty"`

	// PodUIDHashes identifies the reservations of a merged bucket: 8 bytes for each, in the order of their times.
	//
	// +optional
	PodUIDHashes []byte `json:"podUIDHashes,omitempty"`

	// PodTimes are when the reservations of a merged bucket were made or renewed, in the order of podUIDHashes: for each run of
	// equal times two unsigned varints, the number of reservations and the microseconds since the run before, or since startTime.
	// Unset when all are of endTime, and in buckets that a version before this field has written.
	//
	// +optional
	PodTimes []byte `json:"podTimes,omitempty"`
}
