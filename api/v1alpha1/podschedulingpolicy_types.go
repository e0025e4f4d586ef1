package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSchedulingPolicy adds to how pods of its namespace are scheduled, in all cells of the core cluster that it is in. Several
// policies may add to one pod: the one of the higher priority goes first, then one of the namespace before a
// ClusterPodSchedulingPolicy, then the one whose name comes first. What a pod says itself, and what a policy before has added,
// stays. Pods that are there already are not changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=podsched,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.targets`
// +kubebuilder:printcolumn:name="On Conflict",type=string,JSONPath=`.spec.conflictPolicy`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Pods and templates that it was for"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Those of them that it has changed"
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`,description="Those of them that kept something of their own instead"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodSchedulingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodSchedulingPolicySpec   `json:"spec"`
	Status PodSchedulingPolicyStatus `json:"status,omitempty"`
}

// PodSchedulingPolicyList is a list of PodSchedulingPolicies.
//
// +kubebuilder:object:root=true
type PodSchedulingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodSchedulingPolicy `json:"items"`
}

// ClusterPodSchedulingPolicy adds to how pods of many namespaces are scheduled. Of the same priority, a PodSchedulingPolicy of
// the pod's namespace goes first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpodsched,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.targets`
// +kubebuilder:printcolumn:name="On Conflict",type=string,JSONPath=`.spec.conflictPolicy`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Pods and templates that it was for"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Those of them that it has changed"
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`,description="Those of them that kept something of their own instead"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPodSchedulingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterPodSchedulingPolicySpec `json:"spec"`
	Status PodSchedulingPolicyStatus      `json:"status,omitempty"`
}

// ClusterPodSchedulingPolicyList is a list of ClusterPodSchedulingPolicies.
//
// +kubebuilder:object:root=true
type ClusterPodSchedulingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPodSchedulingPolicy `json:"items"`
}

// ClusterPodSchedulingPolicySpec is a PodSchedulingPolicySpec for the namespaces that a selector chooses.
type ClusterPodSchedulingPolicySpec struct {
	// NamespaceSelector chooses namespaces by their labels; empty it chooses all, and absent none. It is one value to server-side
	// apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	PodSchedulingPolicySpec `json:",inline"`
}

// PodSchedulingPolicySpec says which pods a policy is for, and what it adds to them. Without podSelector and protectorSelector it is for
// none.
//
// +kubebuilder:validation:XValidation:rule="has(self.affinity) || has(self.nodeName) || has(self.nodeSelector) || has(self.schedulerName) || has(self.tolerations) || has(self.topologySpreadConstraints)",message="give at least one of affinity, nodeName, nodeSelector, schedulerName, tolerations and topologySpreadConstraints: a policy without any adds nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.templateUpdates) || self.templateUpdates != 'Inject' || (has(self.targets) && 'PodTemplates' in self.targets)",message="templateUpdates: Inject needs PodTemplates among targets",fieldPath=".templateUpdates"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeName) || !(has(self.affinity) || has(self.nodeSelector) || has(self.schedulerName) || has(self.topologySpreadConstraints))",message="nodeName goes around the scheduler, which then heeds no affinity, nodeSelector, schedulerName or topologySpreadConstraints: give nodeName with tolerations at most, or put the node's name into a nodeAffinity by matchFields",fieldPath=".nodeName"
type PodSchedulingPolicySpec struct {
	// PodSelector chooses pods by their labels; empty it chooses all. Without it protectorSelector chooses alone. It is one
	// value to server-side apply.
	//
	// +structType=atomic
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// ProtectorSelector chooses the pods that a PodProtector with these labels covers; empty, those that any covers. With
	// podSelector both must choose a pod. It is one value to server-side apply.
	//
	// +structType=atomic
	// +optional
	ProtectorSelector *PodSelector `json:"protectorSelector,omitempty"`

	// Priority is the order of policies for one pod: the higher one goes first, and where two contradict each other it is
	// heeded.
	//
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// Targets are what is changed: Pods when they are created, PodTemplates when a Deployment, StatefulSet, DaemonSet, ReplicaSet,
	// ReplicationController, Job or CronJob is. Templates of ReplicaSets that another object controls are never changed: a
	// Deployment would not know them again.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={Pods}
	// +listType=set
	// +optional
	Targets []SchedulingTarget `json:"targets,omitempty"`

	// TemplateUpdates says what becomes of templates of workloads that are updated: Ignore, the default, leaves them as they are
	// written; Inject changes them as when they are created, so that a new policy can roll a workload with its next update.
	// Templates of Jobs cannot be updated.
	//
	// +kubebuilder:default=Ignore
	// +optional
	TemplateUpdates TemplateUpdates `json:"templateUpdates,omitempty"`

	// ConflictPolicy says what becomes of a pod that contradicts the policy: KeepExisting, the default, keeps what it has and
	// adds the rest; Reject refuses it.
	//
	// +kubebuilder:default=KeepExisting
	// +optional
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	SchedulingCriteria `json:",inline"`
}

// SchedulingTarget is a kind of objects that a policy changes.
//
// +kubebuilder:validation:Enum=Pods;PodTemplates
type SchedulingTarget string

// The targets of policies.
const (
	TargetPods         SchedulingTarget = "Pods"
	TargetPodTemplates SchedulingTarget = "PodTemplates"
)

// TemplateUpdates says what becomes of templates that are updated.
//
// +kubebuilder:validation:Enum=Ignore;Inject
type TemplateUpdates string

// What becomes of templates that are updated.
const (
	TemplateUpdatesIgnore TemplateUpdates = "Ignore"
	TemplateUpdatesInject TemplateUpdates = "Inject"
)

// ConflictPolicy says what becomes of a pod that contradicts a policy.
//
// +kubebuilder:validation:Enum=KeepExisting;Reject
type ConflictPolicy string

// What becomes of a pod that contradicts a policy.
const (
	ConflictKeepExisting ConflictPolicy = "KeepExisting"
	ConflictReject       ConflictPolicy = "Reject"
)

// PodSchedulingPolicyStatus tells what came of a policy. All counts are of reviews since the policy was made, dry runs left out:
// a pod whose template was changed as well counts twice, and so does one that another webhook changes after ours, about which the
// apiserver asks again.
type PodSchedulingPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions are of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Matched is how many pods and templates the policy was for.
	//
	// +optional
	Matched int64 `json:"matched"`

	// Injected is how many of them it has changed.
	//
	// +optional
	Injected int64 `json:"injected"`

	// Conflicts is how many of them contradicted it.
	//
	// +optional
	Conflicts int64 `json:"conflicts"`

	// Rejected is how many of those were refused for it, or would have been by a webhook without --audit.
	//
	// +optional
	Rejected int64 `json:"rejected"`

	// LastInjected is when it has last changed one.
	//
	// +optional
	LastInjected *metav1.Time `json:"lastInjected,omitempty"`

	// Conditions are Ready, which is True when the webhooks heed the policy as it is, and Conflicting, which is True when a pod
	// contradicted it lately.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
