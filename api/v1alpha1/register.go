package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "breakwater.dev", Version: "v1alpha1"} //nolint:gochecknoglobals // a constant in all but the language's sense

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodProtector{}, &PodProtectorList{}, &Cell{}, &CellList{},
		&ProtectionPolicy{}, &ProtectionPolicyList{}, &ClusterProtectionPolicy{}, &ClusterProtectionPolicyList{}, &ClusterRing{}, &ClusterRingList{},
		&PodSchedulingPolicy{}, &PodSchedulingPolicyList{}, &ClusterPodSchedulingPolicy{}, &ClusterPodSchedulingPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
