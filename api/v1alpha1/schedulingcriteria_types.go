package v1alpha1

import "maps"

// SchedulingCriteria are the criteria that a policy adds to a pod, in the format of a pod. They have separate types so that their
// schema can be bounded, which CEL rules require, and so that values that Kubernetes rejects in a pod are already rejected in a
// policy. Otherwise a pod could be rejected because of a value that a policy added. The bounds exceed common use, and limit the
// growth of pods.
type SchedulingCriteria struct {
	// Affinity is added to the affinity of a pod. Required node terms are combined with the pod's own terms so that both must
	// match. All other terms are appended.
	//
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// NodeName is the node of pods without a node. It bypasses the scheduler, so it is not added to pods that have requirements on
	// nodes, nor to pods of a DaemonSet.
	//
	// +optional
	NodeName NodeName `json:"nodeName,omitempty"`

	// NodeSelector has labels of nodes. A pod keeps its own value of a key.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="nodeSelector has a key that is not a label key: use [prefix/]name of letters, digits, '-', '_' and '.'"
	// +optional
	NodeSelector NodeLabels `json:"nodeSelector,omitempty"`

	// SchedulerName is the scheduler of pods that have none, or that have default-scheduler, which is the default of the API
	// server.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// Tolerations are added to the tolerations of a pod. If a toleration of the pod has the same key, operator, value and effect,
	// the pod keeps its own tolerationSeconds.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, (has(a.key) ? a.key : '') == (has(b.key) ? b.key : '') && (has(a.value) ? a.value : '') == (has(b.value) ? b.value : '') && (has(a.effect) ? a.effect : '') == (has(b.effect) ? b.effect : '') && (has(a.operator) ? a.operator : 'Equal') == (has(b.operator) ? b.operator : 'Equal')))",message="two tolerations have the same key, operator, value and effect: give one"
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// TopologySpreadConstraints are added to the constraints of a pod. If a constraint of the pod has the same topologyKey and
	// whenUnsatisfiable, the pod keeps its own.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +optional
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// NodeLabels are labels of nodes.
//
// +kubebuilder:object:generate=false
type NodeLabels map[string]LabelValue

// DeepCopy copies the labels. Written by hand: controller-gen cannot copy a map of an alias.
func (in NodeLabels) DeepCopy() NodeLabels { return maps.Clone(in) }

// NodeName is the name of a node.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type NodeName = string

// LabelKey is the key of a label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
type LabelKey = string

// Affinity defines which nodes a pod must or should run on, and near which other pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeAffinity) || has(self.podAffinity) || has(self.podAntiAffinity)",message="give at least one of nodeAffinity, podAffinity and podAntiAffinity"
type Affinity struct {
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
	// PodAffinity defines which pods a pod must or should run near.
	//
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`
	// PodAntiAffinity defines which pods a pod must not or should not run near.
	//
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity defines which nodes a pod must or should run on.
type NodeAffinity struct {
	// Required terms: a node must match one of them.
	//
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// Preferred terms: the scheduler prefers nodes that match them, by the sum of the weights.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Preferred []PreferredNodes `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector selects nodes that match one of its terms.
type NodeSelector struct {
	// NodeSelectorTerms are alternatives.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Terms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm selects nodes that meet all its requirements.
//
// +kubebuilder:validation:XValidation:rule="has(self.matchExpressions) || has(self.matchFields)",message="give matchExpressions or matchFields: a term without either matches no node"
type NodeSelectorTerm struct {
	// MatchExpressions are requirements on the labels of a node.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []NodeLabelRequirement `json:"matchExpressions,omitempty"`

	// MatchFields are requirements on the name of a node.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchFields []NodeFieldRequirement `json:"matchFields,omitempty"`
}

// NodeLabelRequirement is a requirement on a label of a node.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : self.operator in ['Gt', 'Lt'] || !has(self.values) || size(self.values) == 0",message="values must hold at least one value for In and NotIn, and none for Exists and DoesNotExist",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]{1,18}$'))",message="values must hold one whole number of at most 18 digits for Gt and Lt",fieldPath=".values"
type NodeLabelRequirement struct {
	// Key is the label's key.
	Key LabelKey `json:"key"`

	// Operator is the relation of the key to the values. Gt and Lt compare whole numbers.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator string `json:"operator"`

	// Values are the label's values, for In and NotIn, or one number for Gt and Lt.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// NodeFieldRequirement is a requirement on the name of a node. Kubernetes supports no other field, and only one value.
type NodeFieldRequirement struct {
	// Key is the field of a node: its name.
	//
	// +kubebuilder:validation:Enum=metadata.name
	Key string `json:"key"`

	// Operator is the relation of the field to the value.
	//
	// +kubebuilder:validation:Enum=In;NotIn
	Operator string `json:"operator"`

	// Values are the name of one node.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	// +listType=atomic
	Values []NodeName `json:"values"`
}

// PreferredNodes prefers nodes that match a term.
type PreferredNodes struct {
	// Weight of a node that matches the term.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Preference is the term that a node should match.
	Preference NodeSelectorTerm `json:"preference"`
}

// PodAffinity defines which pods a pod must or should run near. In podAntiAffinity, it defines which pods it must not or should
// not run near.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredDuringSchedulingIgnoredDuringExecution) || has(self.preferredDuringSchedulingIgnoredDuringExecution)",message="give requiredDuringSchedulingIgnoredDuringExecution or preferredDuringSchedulingIgnoredDuringExecution"
type PodAffinity struct {
	// Required terms must all match.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// Preferred terms add their weight to nodes on which they match.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm is a term and the weight of nodes on which it matches.
type WeightedPodAffinityTerm struct {
	// Weight of a node on which the term matches.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAffinityTerm selects pods, and the topology domains in which they run.
//
// +kubebuilder:validation:XValidation:rule="has(self.labelSelector) || !(has(self.matchLabelKeys) || has(self.mismatchLabelKeys))",message="matchLabelKeys and mismatchLabelKeys need a labelSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.mismatchLabelKeys) || !self.matchLabelKeys.exists(k, k in self.mismatchLabelKeys)",message="a key is either one of matchLabelKeys or of mismatchLabelKeys, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.labelSelector) || !self.matchLabelKeys.exists(k, (has(self.labelSelector.matchLabels) && k in self.labelSelector.matchLabels) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.exists(e, e.key == k)))",message="a key is either one of matchLabelKeys or of labelSelector, not both"
type PodAffinityTerm struct {
	// LabelSelector selects pods. If it is not set, it selects none.
	//
	// +optional
	LabelSelector *PodSelector `json:"labelSelector,omitempty"`

	// Namespaces of the selected pods. Without namespaces and namespaceSelector, it is the namespace of the pod itself.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=atomic
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// TopologyKey is the label of nodes whose values are the topology domains.
	TopologyKey LabelKey `json:"topologyKey"`

	// NamespaceSelector adds namespaces by their labels. If it is empty, it adds all.
	//
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	// MatchLabelKeys are keys of labels for which the selected pods have the same value as the pod itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MatchLabelKeys []LabelKey `json:"matchLabelKeys,omitempty"`

	// MismatchLabelKeys are keys of labels for which the selected pods have another value than the pod itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MismatchLabelKeys []LabelKey `json:"mismatchLabelKeys,omitempty"`
}

// Toleration allows a pod on nodes with a taint. The operators Gt and Lt are not available, because they need a feature gate of
// the cluster, which may reject a pod that uses them.
//
// +kubebuilder:validation:XValidation:rule="has(self.key) || (has(self.operator) && self.operator == 'Exists')",message="a toleration without a key matches all taints: set operator Exists, or a key",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",message="operator Exists takes no value: leave it out, or use operator Equal",fieldPath=".value"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerationSeconds needs effect NoExecute",fieldPath=".tolerationSeconds"
type Toleration struct {
	// Key of the taint. If it is not set, the toleration matches all keys.
	//
	// +optional
	Key LabelKey `json:"key,omitempty"`

	// Operator is Equal, the default, or Exists.
	//
	// +kubebuilder:validation:Enum=Equal;Exists
	// +optional
	Operator string `json:"operator,omitempty"`

	// Value of the taint.
	//
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// Effect of the taint. If it is not set, the toleration matches all effects.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect string `json:"effect,omitempty"`

	// TolerationSeconds is the time in seconds for which a pod stays on a node that gets the taint. If it is not set, the pod
	// stays indefinitely.
	//
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TopologySpreadConstraint distributes pods over the values of a label of nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains needs whenUnsatisfiable DoNotSchedule",fieldPath=".minDomains"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.labelSelector) || !self.matchLabelKeys.exists(k, (has(self.labelSelector.matchLabels) && k in self.labelSelector.matchLabels) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.exists(e, e.key == k)))",message="a key is either one of matchLabelKeys or of labelSelector, not both",fieldPath=".matchLabelKeys"
type TopologySpreadConstraint struct {
	// MaxSkew is the maximum difference in the number of pods between two topology domains.
	//
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew"`

	// TopologyKey is the label of nodes whose values are the topology domains.
	TopologyKey LabelKey `json:"topologyKey"`

	// WhenUnsatisfiable defines what happens to a pod that fits on no node within maxSkew. DoNotSchedule leaves it pending.
	// ScheduleAnyway prefers nodes that reduce the skew.
	//
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable string `json:"whenUnsatisfiable"`

	// LabelSelector selects the pods that are distributed. If it is empty or not set, it is the selector of the PodProtector that
	// covers the pod: the first by name of those that protectorSelector selects. If there is no such PodProtector, an empty
	// selector selects all pods of the namespace, like in Kubernetes, and a constraint without one is not added. The field is
	// atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	LabelSelector *PodSelector `json:"labelSelector,omitempty"`

	// MinDomains is the minimum number of topology domains.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinDomains *int32 `json:"minDomains,omitempty"`

	// NodeAffinityPolicy defines whether only nodes count that match the pod's nodeAffinity and nodeSelector: Honor, the default,
	// or Ignore.
	//
	// +kubebuilder:validation:Enum=Honor;Ignore
	// +optional
	NodeAffinityPolicy *string `json:"nodeAffinityPolicy,omitempty"`

	// NodeTaintsPolicy defines whether nodes count whose taints the pod does not tolerate. Ignore, the default, counts them. Honor
	// does not.
	//
	// +kubebuilder:validation:Enum=Honor;Ignore
	// +optional
	NodeTaintsPolicy *string `json:"nodeTaintsPolicy,omitempty"`

	// MatchLabelKeys are keys of labels for which the pods have the same value as the pod itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MatchLabelKeys []LabelKey `json:"matchLabelKeys,omitempty"`
}
