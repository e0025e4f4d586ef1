package v1alpha1

// TopologyKeyCell makes each cell a domain, instead of the values of a node label.
const TopologyKeyCell = "breakwater.dev/cell"

// Spread defines how the pods of a protector should be distributed over domains. A domain is the set of nodes in all cells that
// have the same value of a label, or a cell. Shares refer to the pods that count towards the floor.
//
// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self.topologyKey).hasValue()",message="topologyKey must be a label key of nodes, as topology.kubernetes.io/zone, or breakwater.dev/cell",fieldPath=".topologyKey"
// +kubebuilder:validation:XValidation:rule="self.topologyKey != 'breakwater.dev/cell' || !has(self.enforcement) || self.enforcement != 'Schedule'",message="pods cannot be scheduled to another cell: Schedule needs a label of nodes as topologyKey",fieldPath=".enforcement"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSharePercent) || !has(self.minDomains) || self.maxSharePercent * self.minDomains >= 100",message="maxSharePercent is too small: it must be at least 100 divided by minDomains",fieldPath=".maxSharePercent"
type Spread struct {
	// TopologyKey is the label of nodes whose values are the domains, for example topology.kubernetes.io/zone. With
	// breakwater.dev/cell, each cell is a domain. A node label has the same meaning in all cells: nodes of two cells with the same
	// value are in one domain.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// MaxSharePercent is the maximum share of the pods that one domain should have, rounded up to whole pods. If it is not set,
	// there is no maximum.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxSharePercent *int32 `json:"maxSharePercent,omitempty"`

	// MinDomains is the minimum number of domains that should have pods. With enforcement Schedule, a scheduler places no second
	// pod in a domain while it sees fewer domains. A scheduler sees only the domains of its own cell, so this applies only if the
	// protector has pods in one cell.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	MinDomains *int32 `json:"minDomains,omitempty"`

	// Enforcement defines how Breakwater enforces the distribution. Audit reports deviations by the condition SpreadSatisfied,
	// events and metrics. Schedule also adds a topology spread constraint to new pods, so that the scheduler of each cell
	// distributes them evenly there. Schedule requires the flag --scheduling of the webhook, and does the same as Audit without
	// it. If the pod or a scheduling policy has a constraint with the same topologyKey and DoNotSchedule, that constraint is kept
	// instead. With Schedule, nodes without the label get none of the pods. Neither value moves existing pods or changes
	// templates.
	//
	// +kubebuilder:default=Audit
	// +optional
	Enforcement SpreadEnforcement `json:"enforcement,omitempty"`

	// TolerateDomainLoss denies a removal after which the loss of any domain other than the pod's own could leave fewer pods than
	// the floor. Pods of the largest domain are then removed first. Pods whose domain is unknown do not count as remaining. If the
	// domain of the removed pod itself is unknown, the worst case is assumed.
	//
	// +optional
	TolerateDomainLoss bool `json:"tolerateDomainLoss,omitempty"`
}

// SpreadEnforcement defines how Breakwater enforces the distribution of pods.
//
// +kubebuilder:validation:Enum=Audit;Schedule
type SpreadEnforcement string

// The enforcements.
const (
	SpreadAudit    SpreadEnforcement = "Audit"
	SpreadSchedule SpreadEnforcement = "Schedule"
)

// MostDomains is the maximum number of domains that an aggregator counts separately.
const MostDomains = 64

// CellDomains is the distribution over domains of the pods of a cell that count towards the floor.
type CellDomains struct {
	// TopologyKey is the topologyKey of spec.spread that the counts were made with. Counts with another one are ignored.
	//
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// Domains are the domains that have pods, by name. If there are too many, they are the largest ones.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Domains []DomainCount `json:"domains,omitempty"`

	// Others are the remaining domains, if there are too many.
	//
	// +optional
	Others *OtherDomains `json:"others,omitempty"`

	// Unknown is the number of pods on nodes that do not have the label, or that are unknown.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Unknown int32 `json:"unknown,omitempty"`

	// Problem is the reason why the aggregator cannot read the nodes of the cell.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Problem string `json:"problem,omitempty"`
}

// DomainCount is the number of pods in a domain that count towards the floor.
// +kubebuilder:object:generate=false
type DomainCount struct {
	// Name of the domain: the value of the node label, or the name of the cell.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Counted is the number of pods in the domain.
	//
	// +kubebuilder:validation:Minimum=0
	Counted int32 `json:"counted"`
}

// OtherDomains are domains that are not counted separately.
// +kubebuilder:object:generate=false
type OtherDomains struct {
	// Domains is the number of these domains.
	//
	// +kubebuilder:validation:Minimum=0
	Domains int32 `json:"domains"`
	// Counted is the number of their pods.
	//
	// +kubebuilder:validation:Minimum=0
	Counted int32 `json:"counted"`
	// Largest is the number of pods in the largest of them.
	//
	// +kubebuilder:validation:Minimum=0
	Largest int32 `json:"largest"`
}

// SpreadStatus is the distribution of the pods of a protector over all cells. It is informational: no decision reads it.
// +kubebuilder:object:generate=false
type SpreadStatus struct {
	// TopologyKey is the topologyKey of spec.spread.
	//
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`
	// Domains is the number of domains that have pods.
	//
	// +kubebuilder:validation:Minimum=0
	Domains int32 `json:"domains"`
	// Largest is the domain with the most pods, the first by name of several. It is empty if there is none, or if it is unknown.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Largest string `json:"largest,omitempty"`
	// LargestCounted is the number of pods in the largest domain.
	//
	// +kubebuilder:validation:Minimum=0
	LargestCounted int32 `json:"largestCounted"`
	// LargestSharePercent is the share of the largest domain in all pods, rounded up.
	//
	// +kubebuilder:validation:Minimum=0
	LargestSharePercent int32 `json:"largestSharePercent"`
	// Unknown is the number of pods whose domain is unknown.
	//
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown"`
	// AvailableAfterLoss is the number of pods that would remain after the loss of the domain whose loss leaves the fewest.
	//
	// +kubebuilder:validation:Minimum=0
	AvailableAfterLoss int32 `json:"availableAfterLoss"`
}
