// Package v1alpha1 is the API of Breakwater, group breakwater.dev: PodProtector, which says how many pods must
// stay available, ProtectionPolicy and ClusterProtectionPolicy, which give workloads protectors, PodSchedulingPolicy and
// ClusterPodSchedulingPolicy, which add to how pods are scheduled, and Cell, which names a place that pods run in. All live in core
// clusters.
//
// +kubebuilder:object:generate=true
// +groupName=breakwater.dev
package v1alpha1
