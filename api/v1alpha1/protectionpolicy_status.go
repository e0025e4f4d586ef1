package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProtectionPolicyStatus tells what came of a policy. The generator writes it.
type ProtectionPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Selected is how many workloads the policy selects: those that it applies to, those that are overruled, and
	// those that opted out.
	//
	// +optional
	Selected int32 `json:"selected"`

	// Applied is how many workloads have all their protectors by this policy.
	//
	// +optional
	Applied int32 `json:"applied"`

	// Overruled is how many workloads another policy applies to.
	//
	// +optional
	Overruled int32 `json:"overruled"`

	// OptedOut is how many workloads have the label breakwater.dev/protect=false.
	//
	// +optional
	OptedOut int32 `json:"optedOut"`

	// OverruledWorkloads are the first of those that are overruled, in order of their names.
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

// OverruledWorkload is a workload that a policy selects and another applies to.
type OverruledWorkload struct {
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// By is the policy that applies, as ProtectionPolicy/web or ClusterProtectionPolicy/web.
	//
	// +kubebuilder:validation:MaxLength=300
	By string `json:"by"`
}
