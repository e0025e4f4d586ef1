package v1alpha1

import "maps"

// SchedulingCriteria are what a policy adds to a pod, written as in a pod. They are types of their own so that their schema can be
// bounded, which rules in CEL need, and so that what Kubernetes would refuse in a pod is refused in a policy: a pod must not be
// refused for what somebody else added to it. Bounds are well above what people write, and keep what a pod grows by small.
type SchedulingCriteria struct {
	// Affinity is added to that of a pod: required terms for nodes are multiplied with the pod's, so that both hold; all others
	// stand beside the pod's.
	//
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// NodeName is the node that a pod without one goes to. The scheduler is not asked, so a pod that asks something of nodes is
	// left alone, and so is one of a DaemonSet.
	//
	// +optional
	NodeName NodeName `json:"nodeName,omitempty"`

	// NodeSelector are labels of nodes. A pod keeps its own value of a key.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="nodeSelector has a key that is not a label key: use [prefix/]name of letters, digits, '-', '_' and '.'"
	// +optional
	NodeSelector NodeLabels `json:"nodeSelector,omitempty"`

	// SchedulerName is the scheduler of pods that have none, or default-scheduler, which the apiserver fills in.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// Tolerations are added to those of a pod. Of the same key, operator, value and effect the pod keeps its own
	// tolerationSeconds.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, (has(a.key) ? a.key : '') == (has(b.key) ? b.key : '') && (has(a.value) ? a.value : '') == (has(b.value) ? b.value : '') && (has(a.effect) ? a.effect : '') == (has(b.effect) ? b.effect : '') && (has(a.operator) ? a.operator : 'Equal') == (has(b.operator) ? b.operator : 'Equal')))",message="two tolerations have the same key, operator, value and effect: give one"
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// TopologySpreadConstraints are added to those of a pod. Of the same topologyKey and whenUnsatisfiable the pod keeps its own.
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

// Affinity says which nodes a pod must or should go to, and beside or away from which other pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeAffinity) || has(self.podAffinity) || has(self.podAntiAffinity)",message="give at least one of nodeAffinity, podAffinity and podAntiAffinity"
type Affinity struct {
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
	// PodAffinity says beside which pods a pod must or should be.
	//
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`
	// PodAntiAffinity says away from which pods a pod must or should be.
	//
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity says which nodes a pod must or should go to.
type NodeAffinity struct {
	// Required terms: a node must meet one of them.
	//
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// Preferred terms: nodes that meet them come first, by the sum of the weights.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Preferred []PreferredNodes `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector chooses nodes that meet one of its terms.
type NodeSelector struct {
	// NodeSelectorTerms are alternatives.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Terms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm chooses nodes that meet all that it asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.matchExpressions) || has(self.matchFields)",message="give matchExpressions or matchFields: a term without either is met by no node"
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

// NodeLabelRequirement is one requirement on a label of a node.
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

// NodeFieldRequirement is one requirement on the name of a node: Kubernetes knows no other field, and takes one value.
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

// PreferredNodes prefers nodes that meet a term.
type PreferredNodes struct {
	// Weight of a node that meets the term.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Preference is the term that a node should meet.
	Preference NodeSelectorTerm `json:"preference"`
}

// PodAffinity says beside which pods a pod must or should be; in podAntiAffinity, away from which.
//
// +kubebuilder:validation:XValidation:rule="has(self.requiredDuringSchedulingIgnoredDuringExecution) || has(self.preferredDuringSchedulingIgnoredDuringExecution)",message="give requiredDuringSchedulingIgnoredDuringExecution or preferredDuringSchedulingIgnoredDuringExecution"
type PodAffinity struct {
	// Required terms must all hold.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// Preferred terms weigh for nodes on which they hold.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm is a term with the weight that it has for nodes on which it holds.
type WeightedPodAffinityTerm struct {
	// Weight of a node on which the term holds.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAffinityTerm chooses pods, and the nodes around them.
//
// +kubebuilder:validation:XValidation:rule="has(self.labelSelector) || !(has(self.matchLabelKeys) || has(self.mismatchLabelKeys))",message="matchLabelKeys and mismatchLabelKeys need a labelSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.mismatchLabelKeys) || !self.matchLabelKeys.exists(k, k in self.mismatchLabelKeys)",message="a key is either one of matchLabelKeys or of mismatchLabelKeys, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.labelSelector) || !self.matchLabelKeys.exists(k, (has(self.labelSelector.matchLabels) && k in self.labelSelector.matchLabels) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.exists(e, e.key == k)))",message="a key is either one of matchLabelKeys or of labelSelector, not both"
type PodAffinityTerm struct {
	// LabelSelector chooses pods; without it none.
	//
	// +optional
	LabelSelector *PodSelector `json:"labelSelector,omitempty"`

	// Namespaces of those pods; without them and namespaceSelector, that of the pod itself.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=atomic
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// TopologyKey is the label of nodes whose values tell one place from another.
	TopologyKey LabelKey `json:"topologyKey"`

	// NamespaceSelector adds namespaces by their labels; empty, all.
	//
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	// MatchLabelKeys are keys of labels of which those pods have the same value as the pod itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MatchLabelKeys []LabelKey `json:"matchLabelKeys,omitempty"`

	// MismatchLabelKeys are keys of labels of which they have another value.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MismatchLabelKeys []LabelKey `json:"mismatchLabelKeys,omitempty"`
}

// Toleration lets a pod onto nodes with a taint. The operators Gt and Lt are behind a gate of the cluster, which may refuse a pod
// for them: they are not offered.
//
// +kubebuilder:validation:XValidation:rule="has(self.key) || (has(self.operator) && self.operator == 'Exists')",message="a toleration without a key is of all taints: give it operator Exists, or a key",fieldPath=".operator"
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",message="operator Exists takes no value: leave it out, or use operator Equal",fieldPath=".value"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerationSeconds needs effect NoExecute",fieldPath=".tolerationSeconds"
type Toleration struct {
	// Key of the taint; without it all.
	//
	// +optional
	Key LabelKey `json:"key,omitempty"`

	// Operator is Equal, also when nothing is said, or Exists.
	//
	// +kubebuilder:validation:Enum=Equal;Exists
	// +optional
	Operator string `json:"operator,omitempty"`

	// Value of the taint.
	//
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// Effect of the taint; without it all.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect string `json:"effect,omitempty"`

	// TolerationSeconds is how long a pod stays on a node that gets the taint; without it for ever.
	//
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TopologySpreadConstraint spreads pods over the values of a label of nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains needs whenUnsatisfiable DoNotSchedule",fieldPath=".minDomains"
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabelKeys) || !has(self.labelSelector) || !self.matchLabelKeys.exists(k, (has(self.labelSelector.matchLabels) && k in self.labelSelector.matchLabels) || (has(self.labelSelector.matchExpressions) && self.labelSelector.matchExpressions.exists(e, e.key == k)))",message="a key is either one of matchLabelKeys or of labelSelector, not both",fieldPath=".matchLabelKeys"
type TopologySpreadConstraint struct {
	// MaxSkew is how many more pods one place may have than another.
	//
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew"`

	// TopologyKey is the label of nodes whose values tell one place from another.
	TopologyKey LabelKey `json:"topologyKey"`

	// WhenUnsatisfiable says what becomes of a pod that no node can take within maxSkew: DoNotSchedule leaves it waiting,
	// ScheduleAnyway prefers nodes by which the skew is less.
	//
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable string `json:"whenUnsatisfiable"`

	// LabelSelector chooses the pods that are spread. Absent or empty, they are those of the PodProtector that covers the pod: of
	// those that protectorSelector chooses, the one whose name comes first. Where there is none, an empty one means all pods of
	// the namespace, as Kubernetes has it, and without one the constraint is left out. It is one value to server-side apply.
	//
	// +structType=atomic
	// +optional
	LabelSelector *PodSelector `json:"labelSelector,omitempty"`

	// MinDomains is how many places there must be at least.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinDomains *int32 `json:"minDomains,omitempty"`

	// NodeAffinityPolicy says whether only nodes count that the pod's nodeAffinity and nodeSelector choose: Honor, also when nothing
	// is said, or Ignore.
	//
	// +kubebuilder:validation:Enum=Honor;Ignore
	// +optional
	NodeAffinityPolicy *string `json:"nodeAffinityPolicy,omitempty"`

	// NodeTaintsPolicy says whether nodes count whose taints the pod does not tolerate: Ignore, also when nothing is said, counts
	// them; Honor does not.
	//
	// +kubebuilder:validation:Enum=Honor;Ignore
	// +optional
	NodeTaintsPolicy *string `json:"nodeTaintsPolicy,omitempty"`

	// MatchLabelKeys are keys of labels of which the pods have the same value as the pod itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	MatchLabelKeys []LabelKey `json:"matchLabelKeys,omitempty"`
}
