package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProtectionPolicy creates protectors for workloads of its namespace. If several policies select a workload, one of them applies:
// a ProtectionPolicy before a ClusterProtectionPolicy, then the one with the higher priority, then the older one, then the first
// by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pp,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`,description="Workloads that the policy selects"
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`,description="Workloads whose protectors result from this policy"
// +kubebuilder:printcolumn:name="Overruled",type=integer,JSONPath=`.status.overruled`,description="Workloads to which another policy applies"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProtectionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec   ProtectionPolicySpec   `json:"spec,omitempty"`
	Status ProtectionPolicyStatus `json:"status,omitempty"`
}

// ProtectionPolicyList is a list of ProtectionPolicies.
//
// +kubebuilder:object:root=true
type ProtectionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProtectionPolicy `json:"items"`
}

// ClusterProtectionPolicy creates protectors for workloads of many namespaces. A ProtectionPolicy in the workload's namespace
// takes precedence.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpp,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`,description="Workloads that the policy selects"
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`,description="Workloads whose protectors result from this policy"
// +kubebuilder:printcolumn:name="Overruled",type=integer,JSONPath=`.status.overruled`,description="Workloads to which another policy applies"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterProtectionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec   ClusterProtectionPolicySpec `json:"spec,omitempty"`
	Status ProtectionPolicyStatus      `json:"status,omitempty"`
}

// ClusterProtectionPolicyList is a list of ClusterProtectionPolicies.
//
// +kubebuilder:object:root=true
type ClusterProtectionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterProtectionPolicy `json:"items"`
}

// ClusterProtectionPolicySpec is a ProtectionPolicySpec for the namespaces that a selector selects.
type ClusterProtectionPolicySpec struct {
	// NamespaceSelector selects namespaces by their labels. If it is empty or not set, it selects all namespaces. The field is
	// atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	ProtectionPolicySpec `json:",inline"`
}

// ProtectionPolicySpec defines which workloads get protectors, and the spec of these protectors.
type ProtectionPolicySpec struct {
	// Workloads selects the workloads.
	//
	// +kubebuilder:default={}
	// +optional
	Workloads WorkloadSelection `json:"workloads,omitempty"`

	// Priority decides between policies that select the same workload: the higher one applies.
	//
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Priority int32 `json:"priority,omitempty"`

	ProtectionRule `json:",inline"`
}

// WorkloadSelection selects workloads by kind and labels.
type WorkloadSelection struct {
	// Kinds are the kinds of workloads.
	//
	// +kubebuilder:default={{apiVersion: "apps/v1", kind: "Deployment"}, {apiVersion: "apps/v1", kind: "StatefulSet"}}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.kind == b.kind && a.apiVersion.split('/')[0] == b.apiVersion.split('/')[0]))",message="each kind of a group may be named once"
	// +listType=atomic
	// +optional
	Kinds []WorkloadKind `json:"kinds,omitempty"`

	// Selector selects workloads by their own labels. If it is empty or not set, it selects all.
	//
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`
}

// WorkloadKind is a kind of workload: Deployment, StatefulSet and ReplicaSet of apps/v1, ReplicationController of v1, any other
// kind with a scale subresource, or a kind whose objects contain whole workloads.
// +kubebuilder:object:generate=false
type WorkloadKind struct {
	// APIVersion of the kind, for example apps/v1.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`

	// Kind, for example Deployment.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`

	// TemplatePath is the path of a whole workload in objects of this kind, for example spec.template of a federated kind, or of a
	// list of workloads, each of which gets its own protector. If it is not set, the scale subresource is used.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*$`
	// +optional
	TemplatePath string `json:"templatePath,omitempty"`
}

// ProtectionRule is the part of a protector's spec that a policy defines. Users can set the fields that the policy does not set
// on each protector.
type ProtectionRule struct {
	// Floor defines the floor. If it is not set, the floor is derived from the strategy of the workload.
	//
	// +optional
	Floor *FloorRule `json:"floor,omitempty"`

	// MinReadySeconds is the time in seconds for which a pod must have been Ready before it counts as available. It overrides the
	// workload's own value.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// Criterion is the state in which a pod counts towards the floor. Available: Ready for minReadySeconds. Ready: has the Ready
	// condition. Running: in phase Running. Scheduled: has a node and has not finished.
	//
	// +optional
	Criterion Criterion `json:"criterion,omitempty"`

	// Operations are the operations that consume budget: Delete, Evict, Relabel (a change after which the pod is no longer covered or
	// counted), Update (a change of the spec that can make the pod unavailable) and Resize (a change of resources that restarts a
	// container). Each protector may have more operations.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Operations []Operation `json:"operations,omitempty"`

	// ExemptPodSelector selects pods of the workloads that are neither protected nor counted. The field is atomic for server-side
	// apply.
	//
	// +structType=atomic
	// +optional
	ExemptPodSelector *PodSelector `json:"exemptPodSelector,omitempty"`

	// Spread defines how the pods of each workload should be distributed over zones, other groups of nodes, or cells. The field is
	// atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// AdmissionHistory tunes how admitted removals are recorded.
	//
	// +optional
	AdmissionHistory *AdmissionHistoryTuning `json:"admissionHistory,omitempty"`

	// CoreOutage defines what a cell does while it cannot reach the core cluster. With Deny, every removal there is denied. With
	// LocalShare, which is experimental, each cell decides alone on a share of the floor.
	//
	// +optional
	CoreOutage CoreOutage `json:"coreOutage,omitempty"`

	// LargeDecreases limits the number of protectors of the policy that may lose their floor in a window. For fields that are not
	// set, the limits of the generator apply.
	//
	// +structType=atomic
	// +optional
	LargeDecreases *DecreaseLimits `json:"largeDecreases,omitempty"`

	// TargetRemovalPolicy defines whether the replicas of a workload that no longer exists stay expected (Retain, the default), because
	// an accident looks the same, or not (Release). It also defines what happens to the protectors when this policy is deleted or no
	// longer selects their workload, and no other policy does. Retain keeps them in force with the rule of this policy, until the
	// workload is deleted or opts out. Release releases them. A policy that disappears without having been deleted always leaves its
	// protectors in force.
	//
	// +optional
	TargetRemovalPolicy TargetRemovalPolicy `json:"targetRemovalPolicy,omitempty"`
}

// CascadePolicy defines what happens to floors whose workloads are deleted by a cascade.
//
// +kubebuilder:validation:Enum=Hold;Release
type CascadePolicy string

const (
	// CascadeHold keeps the floors in force until a user confirms their release.
	CascadeHold CascadePolicy = "Hold"
	// CascadeRelease treats a cascade like any other deletion.
	CascadeRelease CascadePolicy = "Release"
)

// DecreaseLimits limit the large decreases that may take effect in a window. A large decrease is the release of a protector, or a
// decrease of a floor by half or more. If more are pending than the limit allows, all of them are held until a user confirms them
// or the limit allows them. A policy that sets count, percent, window or quietPeriod has its own budget for its protectors.
type DecreaseLimits struct {
	// Count is the number of large decreases that may take effect in a window, if it is more than percent. The default is 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	// +optional
	Count *int32 `json:"count,omitempty"`

	// Percent is the percentage of the protectors that may have a large decrease in a window, if it is more than count. 100
	// removes the limit. The default is 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// Window is the time span to which the limit applies. The default is 10m.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('10s') && self <= duration('24h')",message="window must be from 10s to 24h"
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`

	// QuietPeriod is the time for which a large decrease waits before it takes effect, so that a burst is detected. The default is
	// 5s.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('2m')",message="quietPeriod must be from 0s to 2m"
	// +optional
	QuietPeriod *metav1.Duration `json:"quietPeriod,omitempty"`

	// OnCascade defines what happens to the floor of a workload that is deleted because its owner, its CustomResourceDefinition or
	// its namespace is deleted. Hold keeps the floor until a user confirms the release. Release treats it like any other deletion.
	// The default is Hold.
	//
	// +optional
	OnCascade CascadePolicy `json:"onCascade,omitempty"`
}

// FloorRule defines the floor of a workload.
//
// +kubebuilder:validation:XValidation:rule="[has(self.fromStrategy), has(self.minAvailable), has(self.maxUnavailable), has(self.bands)].filter(given, given).size() == 1",message="give one of fromStrategy, minAvailable, maxUnavailable and bands"
type FloorRule struct {
	// FromStrategy sets the floor so that it allows as many unavailable pods as a rollout of the workload does. For workloads
	// without a known strategy, it allows 25 %, rounded down.
	//
	// +optional
	FromStrategy *FromStrategy `json:"fromStrategy,omitempty"`

	PodShare `json:",inline"`

	// Bands define different floors for workloads of different sizes. The first band whose upToReplicas is at least the replicas
	// of the workload applies.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="self.filter(b, !has(b.upToReplicas)).size() == 1 && !has(self[size(self)-1].upToReplicas)",message="the last band, and no other, must be without upToReplicas"
	// +kubebuilder:validation:XValidation:rule="self.map(b, has(b.upToReplicas) ? b.upToReplicas : 2147483647).isSorted() && self.all(a, self.exists_one(b, (has(a.upToReplicas) ? a.upToReplicas : -1) == (has(b.upToReplicas) ? b.upToReplicas : -1)))",message="upToReplicas must rise from band to band"
	// +listType=atomic
	// +optional
	Bands []FloorBand `json:"bands,omitempty"`
}

// FromStrategy has no fields.
// +kubebuilder:object:generate=false
type FromStrategy struct{}

// PodShare is a number of pods, or a share of a workload's replicas. Percentages are rounded up.
type PodShare struct {
	// MinAvailable is the floor: a number of pods, or a percentage of the workload's replicas such as 70%, rounded up.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable sets the floor to the workload's replicas minus this value: a number of pods, or a percentage of the replicas,
	// rounded up.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// FloorBand is the floor of workloads up to a size.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="give either minAvailable or maxUnavailable"
type FloorBand struct {
	// UpToReplicas is the maximum size of a workload to which the band applies. The last band has none, and applies to all larger
	// workloads.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpToReplicas *int32 `json:"upToReplicas,omitempty"`

	PodShare `json:",inline"`
}

// AdmissionHistoryTuning is the part of AdmissionHistorySpec that a policy can set.
type AdmissionHistoryTuning struct {
	// MaxConcurrentLag is the maximum number of open reservations over all cells. 0 means no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxConcurrentLag *int32 `json:"maxConcurrentLag,omitempty"`

	// CompactThreshold is the maximum number of reservations of a cell that are stored as single buckets.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	CompactThreshold *int32 `json:"compactThreshold,omitempty"`

	// UpdateTimeoutSeconds is the time in seconds within which a pod must become available again after an Update or a Resize.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	UpdateTimeoutSeconds *int32 `json:"updateTimeoutSeconds,omitempty"`

	// AggregationRateMillis is the time in milliseconds for which an aggregator collects pod events before it writes them.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	AggregationRateMillis *int32 `json:"aggregationRateMillis,omitempty"`
}
