package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSchedulingPolicy adds scheduling criteria to pods of its namespace, in all cells of its core cluster. Several policies can
// apply to one pod, in this order: the one with the higher priority, then a PodSchedulingPolicy before a
// ClusterPodSchedulingPolicy, then the first by name. Criteria of the pod itself and of earlier policies take precedence.
// Existing pods are not changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=podsched,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.targets`
// +kubebuilder:printcolumn:name="On Conflict",type=string,JSONPath=`.spec.conflictPolicy`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Pods and templates that the policy applied to"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Pods and templates that the policy changed"
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`,description="Pods and templates that conflicted with the policy"
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

// ClusterPodSchedulingPolicy adds scheduling criteria to pods of many namespaces. At the same priority, a PodSchedulingPolicy in
// the pod's namespace takes precedence.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpodsched,categories=breakwater
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.targets`
// +kubebuilder:printcolumn:name="On Conflict",type=string,JSONPath=`.spec.conflictPolicy`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Pods and templates that the policy applied to"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Pods and templates that the policy changed"
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`,description="Pods and templates that conflicted with the policy"
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

// ClusterPodSchedulingPolicySpec is a PodSchedulingPolicySpec for the namespaces that a selector selects.
type ClusterPodSchedulingPolicySpec struct {
	// NamespaceSelector selects namespaces by their labels. If it is empty, it selects all. If it is not set, it selects none. The
	// field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	PodSchedulingPolicySpec `json:",inline"`
}

// PodSchedulingPolicySpec defines which pods a policy applies to, and what it adds to them. Without podSelector and
// protectorSelector, it applies to no pod.
//
// +kubebuilder:validation:XValidation:rule="has(self.affinity) || has(self.nodeName) || has(self.nodeSelector) || has(self.schedulerName) || has(self.tolerations) || has(self.topologySpreadConstraints)",message="give at least one of affinity, nodeName, nodeSelector, schedulerName, tolerations and topologySpreadConstraints: a policy without any adds nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.templateUpdates) || self.templateUpdates != 'Inject' || (has(self.targets) && 'PodTemplates' in self.targets)",message="templateUpdates: Inject needs PodTemplates among targets",fieldPath=".templateUpdates"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeName) || !(has(self.affinity) || has(self.nodeSelector) || has(self.schedulerName) || has(self.topologySpreadConstraints))",message="nodeName bypasses the scheduler, which then ignores affinity, nodeSelector, schedulerName and topologySpreadConstraints: combine nodeName only with tolerations, or put the node's name into a nodeAffinity by matchFields",fieldPath=".nodeName"
type PodSchedulingPolicySpec struct {
	// PodSelector selects pods by their labels. If it is empty, it selects all. If it is not set, protectorSelector alone selects
	// the pods. The field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// ProtectorSelector selects the pods that a PodProtector with these labels covers. If it is empty, it selects all pods that
	// any PodProtector covers. If podSelector is set as well, both must select a pod. The field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	ProtectorSelector *PodSelector `json:"protectorSelector,omitempty"`

	// Priority is the precedence of policies for one pod. The policy with the higher priority is applied first, and takes
	// precedence if two policies conflict.
	//
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// Targets are the objects that are changed. Pods: pods, when they are created. PodTemplates: the templates of a Deployment,
	// StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job or CronJob, when it is created. Templates of ReplicaSets that
	// another object controls are never changed, because a Deployment would not recognize its ReplicaSet.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={Pods}
	// +listType=set
	// +optional
	Targets []SchedulingTarget `json:"targets,omitempty"`

	// TemplateUpdates defines what happens to templates of workloads that are updated. Ignore, the default, does not change them.
	// Inject changes them as at creation, so that the next update of a workload rolls out a new policy. Templates of Jobs cannot
	// be updated.
	//
	// +kubebuilder:default=Ignore
	// +optional
	TemplateUpdates TemplateUpdates `json:"templateUpdates,omitempty"`

	// ConflictPolicy defines what happens to a pod that conflicts with the policy. KeepExisting, the default, keeps the values of
	// the pod and adds the rest. Reject denies the pod.
	//
	// +kubebuilder:default=KeepExisting
	// +optional
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	SchedulingCriteria `json:",inline"`
}

// SchedulingTarget is a kind of object that a policy changes.
//
// +kubebuilder:validation:Enum=Pods;PodTemplates
type SchedulingTarget string

// The targets of policies.
const (
	TargetPods         SchedulingTarget = "Pods"
	TargetPodTemplates SchedulingTarget = "PodTemplates"
)

// TemplateUpdates defines what happens to templates that are updated.
//
// +kubebuilder:validation:Enum=Ignore;Inject
type TemplateUpdates string

// The values of TemplateUpdates.
const (
	TemplateUpdatesIgnore TemplateUpdates = "Ignore"
	TemplateUpdatesInject TemplateUpdates = "Inject"
)

// ConflictPolicy defines what happens to a pod that conflicts with a policy.
//
// +kubebuilder:validation:Enum=KeepExisting;Reject
type ConflictPolicy string

// The conflict policies.
const (
	ConflictKeepExisting ConflictPolicy = "KeepExisting"
	ConflictReject       ConflictPolicy = "Reject"
)

// PodSchedulingPolicyStatus is the observed state of a policy. All counts are numbers of reviews since the policy was created,
// without dry runs. A pod whose template was changed as well is counted twice. So is a pod that another webhook changes after
// Breakwater, because the API server then calls the webhook again.
type PodSchedulingPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions were computed from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Matched is the number of pods and templates that the policy applied to.
	//
	// +optional
	Matched int64 `json:"matched"`

	// Injected is the number of them that the policy changed.
	//
	// +optional
	Injected int64 `json:"injected"`

	// Conflicts is the number of them that conflicted with the policy.
	//
	// +optional
	Conflicts int64 `json:"conflicts"`

	// Rejected is the number of conflicts for which a pod was denied, or would have been denied without --audit.
	//
	// +optional
	Rejected int64 `json:"rejected"`

	// LastInjected is the time at which the policy last changed a pod or template.
	//
	// +optional
	LastInjected *metav1.Time `json:"lastInjected,omitempty"`

	// Conditions are Ready, which is True if the webhooks apply the current spec, and Conflicting, which is True if a pod recently
	// conflicted with the policy.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
