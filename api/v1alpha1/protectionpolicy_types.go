package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProtectionPolicy gives workloads of its namespace protectors. Where several policies select a workload one of them
// applies: one of the namespace before a ClusterProtectionPolicy, then the one of the higher priority, then the older
// one, then the one whose name comes first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pp,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`,description="Workloads that it selects"
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`,description="Workloads whose protectors are by this policy"
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

// ClusterProtectionPolicy gives workloads of many namespaces protectors. A ProtectionPolicy of the workload's namespace
// comes before it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpp,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`,description="Workloads that it selects"
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`,description="Workloads whose protectors are by this policy"
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

// ClusterProtectionPolicySpec is a ProtectionPolicySpec for the namespaces that a selector chooses.
type ClusterProtectionPolicySpec struct {
	// NamespaceSelector chooses namespaces by their labels. Without it, or empty, it chooses all. It is one value to server-side
	// apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	ProtectionPolicySpec `json:",inline"`
}

// ProtectionPolicySpec says which workloads get protectors, and what those ask for.
type ProtectionPolicySpec struct {
	// Workloads chooses the workloads.
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

// WorkloadSelection chooses workloads by kind and labels.
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

	// Selector chooses by the workloads' own labels. Without it, or empty, it chooses all.
	//
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`
}

// WorkloadKind is a kind of workloads: Deployment, StatefulSet and ReplicaSet of apps/v1, ReplicationController of v1,
// or any other with a scale subresource, or with whole workloads in it.
type WorkloadKind struct {
	// APIVersion of the kind, as apps/v1.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`

	// Kind, as Deployment.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`

	// TemplatePath leads to a whole workload in objects of this kind, as spec.template of a federation's template kind, or
	// to a list of them, each of which has a protector of its own. Without it the scale subresource is asked.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*$`
	// +optional
	TemplatePath string `json:"templatePath,omitempty"`
}

// ProtectionRule is what a policy asks of protectors. What it does not say is the user's to tune on each protector.
type ProtectionRule struct {
	// Floor says where the floor comes from; without it, from the strategy of the workload.
	//
	// +optional
	Floor *FloorRule `json:"floor,omitempty"`

	// MinReadySeconds is that of the protectors, in place of the workload's own.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// Criterion is that of the protectors.
	//
	// +optional
	Criterion Criterion `json:"criterion,omitempty"`

	// Operations cost budget with all of the protectors, which may have more.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +listType=set
	// +optional
	Operations []Operation `json:"operations,omitempty"`

	// ExemptPodSelector is that of the protectors.
	//
	// +structType=atomic
	// +optional
	ExemptPodSelector *PodSelector `json:"exemptPodSelector,omitempty"`

	// Spread is that of the protectors.
	//
	// +structType=atomic
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// AdmissionHistory tunes the bookkeeping of the protectors.
	//
	// +optional
	AdmissionHistory *AdmissionHistoryTuning `json:"admissionHistory,omitempty"`

	// LargeDecreases limits how many protectors of the policy may lose their floor in a window. Without it, or for fields that it
	// does not set, the limits of the generator apply.
	//
	// +structType=atomic
	// +optional
	LargeDecreases *DecreaseLimits `json:"largeDecreases,omitempty"`

	// TargetRemovalPolicy is that of the protectors, and what becomes of them when this policy is deleted, or selects
	// their workload no more, and no other does: Retain, also when nothing is said, keeps them in force as they are by
	// this policy, until the workload is deleted or opts out. Release lets them go. A policy that vanishes without having
	// been deleted always leaves its protectors in force.
	//
	// +optional
	TargetRemovalPolicy TargetRemovalPolicy `json:"targetRemovalPolicy,omitempty"`
}

// CascadePolicy is what becomes of floors whose workloads a cascade deletes.
//
// +kubebuilder:validation:Enum=Hold;Release
type CascadePolicy string

const (
	// CascadeHold keeps the floors in force until someone confirms their release.
	CascadeHold CascadePolicy = "Hold"
	// CascadeRelease treats a cascade as any other deletion.
	CascadeRelease CascadePolicy = "Release"
)

// DecreaseLimits bound the large decreases that may take effect in a window: the release of a protector, or a floor that falls by
// half or more. When more are pending than may take effect, all of them are held until someone confirms them or time allows them.
// A policy that sets count, percent, window or quietPeriod has a budget of its own, which is for the protectors of the policy.
type DecreaseLimits struct {
	// Count is how many large decreases may take effect in a window, if it is more than percent. The default is 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	// +optional
	Count *int32 `json:"count,omitempty"`

	// Percent is how many percent of the protectors may have a large decrease in a window, if it is more than count. 100 lifts the
	// limit. The default is 5.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// Window is the time that the limit is for. The default is 10m.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('10s') && self <= duration('24h')",message="window must be from 10s to 24h"
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`

	// QuietPeriod is how long a large decrease waits before it takes effect, so that a burst is recognized. The default is 5s.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('2m')",message="quietPeriod must be from 0s to 2m"
	// +optional
	QuietPeriod *metav1.Duration `json:"quietPeriod,omitempty"`

	// OnCascade is what becomes of the floor of a workload that is deleted because its owner, its CustomResourceDefinition or its
	// namespace is: Hold keeps it until someone confirms the release, Release treats it as any other deletion. The default is Hold.
	//
	// +optional
	OnCascade CascadePolicy `json:"onCascade,omitempty"`
}

// FloorRule says where the floor of a workload comes from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.fromStrategy), has(self.minAvailable), has(self.maxUnavailable), has(self.bands)].filter(given, given).size() == 1",message="give one of fromStrategy, minAvailable, maxUnavailable and bands"
type FloorRule struct {
	// FromStrategy leaves as many pods free as a rollout of the workload takes at once. Workloads that have no strategy
	// of a kind that is known leave 25 %, rounded down.
	//
	// +optional
	FromStrategy *FromStrategy `json:"fromStrategy,omitempty"`

	PodShare `json:",inline"`

	// Bands give workloads of different sizes different floors: the first one counts that reaches up to the replicas
	// that the workload wants.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:rule="self.filter(b, !has(b.upToReplicas)).size() == 1 && !has(self[size(self)-1].upToReplicas)",message="the last band, and no other, must be without upToReplicas"
	// +kubebuilder:validation:XValidation:rule="self.map(b, has(b.upToReplicas) ? b.upToReplicas : 2147483647).isSorted() && self.all(a, self.exists_one(b, (has(a.upToReplicas) ? a.upToReplicas : -1) == (has(b.upToReplicas) ? b.upToReplicas : -1)))",message="upToReplicas must rise from band to band"
	// +listType=atomic
	// +optional
	Bands []FloorBand `json:"bands,omitempty"`
}

// FromStrategy has nothing to tune.
type FromStrategy struct{}

// PodShare is a number of pods, or a share of those that a workload wants; percentages are rounded up.
type PodShare struct {
	// MinAvailable is the floor.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable is how far below the replicas that the workload wants the floor is.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number of pods, from 0 to 2147483647, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// FloorBand is the floor of workloads up to a size.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="give either minAvailable or maxUnavailable"
type FloorBand struct {
	// UpToReplicas is the greatest size that the band is for. The last band has none: it is for all others.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpToReplicas *int32 `json:"upToReplicas,omitempty"`

	PodShare `json:",inline"`
}

// AdmissionHistoryTuning is the part of AdmissionHistorySpec that a policy says something about.
type AdmissionHistoryTuning struct {
	// MaxConcurrentLag is how many reservations may be open at once, over all cells; 0 is no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxConcurrentLag *int32 `json:"maxConcurrentLag,omitempty"`

	// CompactThreshold is how many reservations of a cell are kept one by one.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	CompactThreshold *int32 `json:"compactThreshold,omitempty"`

	// UpdateTimeoutSeconds is how long a pod may take to become available again after an Update or a Resize.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	UpdateTimeoutSeconds *int32 `json:"updateTimeoutSeconds,omitempty"`

	// AggregationRateMillis is how long an aggregator gathers pod events before it writes them, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	AggregationRateMillis *int32 `json:"aggregationRateMillis,omitempty"`
}
