package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProtectionPolicyStatus is the observed state of a policy. The generator writes it.
type ProtectionPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the status was computed from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Selected is the number of workloads that the policy selects: those to which it applies, those to which another policy
	// applies, and those that opted out.
	//
	// +optional
	Selected int32 `json:"selected"`

	// Applied is the number of workloads that have all their protectors from this policy.
	//
	// +optional
	Applied int32 `json:"applied"`

	// Overruled is the number of selected workloads to which another policy applies.
	//
	// +optional
	Overruled int32 `json:"overruled"`

	// OptedOut is the number of selected workloads that have the label breakwater.dev/protect=false.
	//
	// +optional
	OptedOut int32 `json:"optedOut"`

	// OverruledWorkloads are the first of the overruled workloads, sorted by name.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	OverruledWorkloads []OverruledWorkload `json:"overruledWorkloads,omitempty"`

	// Conditions are Ready, which is True when every workload that the policy applies to has its protectors, and
	// KindsServed.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OverruledWorkload is a workload that a policy selects, but to which another policy applies.
// +kubebuilder:object:generate=false
type OverruledWorkload struct {
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// By is the policy that applies, for example ProtectionPolicy/web or ClusterProtectionPolicy/web.
	//
	// +kubebuilder:validation:MaxLength=300
	By string `json:"by"`
}
