// Package v1alpha1 is the API of Breakwater, group breakwater.dev. A PodProtector states how many pods must stay available. A
// ProtectionPolicy or ClusterProtectionPolicy creates protectors for workloads. A PodSchedulingPolicy or ClusterPodSchedulingPolicy
// adds scheduling criteria to pods. A Cell names a set of pods, and a ClusterRing distributes objects over the shards of a
// controller.
//
// Objects are stored in core clusters. With coreOutage LocalShare, a cell's cluster also stores shares, which are PodProtectors, and a
// copy of its Cell.
//
// +kubebuilder:object:generate=true
// +groupName=breakwater.dev
package v1alpha1
