package v1alpha1

// TopologyKeyCell makes each cell a domain, in place of a node label.
const TopologyKeyCell = "breakwater.dev/cell"

// Spread says how the pods of a protector are to be shared out among domains: the nodes, in all cells, that have the same value of
// a label, or the cells. Shares are of the pods that count towards the floor.
//
// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self.topologyKey).hasValue()",message="topologyKey must be a label key of nodes, as topology.kubernetes.io/zone, or breakwater.dev/cell",fieldPath=".topologyKey"
// +kubebuilder:validation:XValidation:rule="self.topologyKey != 'breakwater.dev/cell' || !has(self.enforcement) || self.enforcement != 'Schedule'",message="pods cannot be scheduled to another cell: Schedule needs a label of nodes as topologyKey",fieldPath=".enforcement"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSharePercent) || !has(self.minDomains) || self.maxSharePercent * self.minDomains >= 100",message="maxSharePercent leaves pods without a place: it must be at least 100 divided by minDomains",fieldPath=".maxSharePercent"
type Spread struct {
	// TopologyKey is the label of nodes whose values are the domains, as topology.kubernetes.io/zone, or breakwater.dev/cell: then
	// each cell is one. A node label means the same in all cells: nodes of two cells that have the same value are one domain.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// MaxSharePercent is the largest share of the pods that one domain should have, rounded up to whole pods. Without it any
	// share will do.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxSharePercent *int32 `json:"maxSharePercent,omitempty"`

	// MinDomains is how many domains should have pods. With enforcement Schedule a scheduler then gives no domain a second pod
	// while it sees fewer. As it sees those of its own cell alone, that is so where the protector has one cell.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	MinDomains *int32 `json:"minDomains,omitempty"`

	// Enforcement is what is done about it: Audit tells, by the condition SpreadSatisfied, events and metrics. Schedule also adds a
	// topology spread constraint to new pods, so that the scheduler of each cell shares them out evenly there; it needs the
	// webhook's --scheduling, and does what Audit does without. A constraint of the pod itself, or of a scheduling policy, with
	// the same topologyKey and DoNotSchedule stays instead. Nodes without the label get none of the pods. Neither moves pods that
	// are there, or changes templates.
	//
	// +kubebuilder:default=Audit
	// +optional
	Enforcement SpreadEnforcement `json:"enforcement,omitempty"`

	// TolerateDomainLoss refuses a removal after which the loss of some other domain than that of the pod, whichever it is, would
	// leave fewer pods than the floor. Pods go first where there are most then. Pods of which the domain is not known count for
	// nothing in that, and while it is so for the pod itself it is taken for the worst.
	//
	// +optional
	TolerateDomainLoss bool `json:"tolerateDomainLoss,omitempty"`
}

// SpreadEnforcement is what is done about how pods are shared out.
//
// +kubebuilder:validation:Enum=Audit;Schedule
type SpreadEnforcement string

// The enforcements.
const (
	SpreadAudit    SpreadEnforcement = "Audit"
	SpreadSchedule SpreadEnforcement = "Schedule"
)

// MostDomains is how many domains an aggregator counts one by one.
const MostDomains = 64

// CellDomains is how the pods of a cell that count towards the floor are shared out among domains.
type CellDomains struct {
	// TopologyKey is that of spec.spread which the counts are by. Counts by another one say nothing.
	//
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`

	// Domains that have pods, by name; when there are too many, those that have most.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Domains []DomainCount `json:"domains,omitempty"`

	// Others are the rest of the domains, when there are too many.
	//
	// +optional
	Others *OtherDomains `json:"others,omitempty"`

	// Unknown is how many pods are on nodes that do not have the label, or are not known.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Unknown int32 `json:"unknown,omitempty"`

	// Problem is why the nodes of the cell cannot be read.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Problem string `json:"problem,omitempty"`
}

// DomainCount is how many pods a domain has that count towards the floor.
type DomainCount struct {
	// Name of the domain: the value of the node label, or the name of the cell.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Counted is the number of its pods.
	//
	// +kubebuilder:validation:Minimum=0
	Counted int32 `json:"counted"`
}

// OtherDomains are domains that are not counted one by one.
type OtherDomains struct {
	// Domains is how many there are.
	//
	// +kubebuilder:validation:Minimum=0
	Domains int32 `json:"domains"`
	// Counted is the number of their pods.
	//
	// +kubebuilder:validation:Minimum=0
	Counted int32 `json:"counted"`
	// Largest is the number of pods of the one that has most.
	//
	// +kubebuilder:validation:Minimum=0
	Largest int32 `json:"largest"`
}

// SpreadStatus tells, for people, how the pods of a protector are shared out over all cells: no decision reads it.
type SpreadStatus struct {
	// TopologyKey is that of spec.spread.
	//
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`
	// Domains is how many domains have pods.
	//
	// +kubebuilder:validation:Minimum=0
	Domains int32 `json:"domains"`
	// Largest is the domain that has most pods, the first by name of several; empty when there is none, or it is not known.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Largest string `json:"largest,omitempty"`
	// LargestCounted is the number of its pods.
	//
	// +kubebuilder:validation:Minimum=0
	LargestCounted int32 `json:"largestCounted"`
	// LargestSharePercent is its share of all, rounded up.
	//
	// +kubebuilder:validation:Minimum=0
	LargestSharePercent int32 `json:"largestSharePercent"`
	// Unknown is how many pods are in no domain that is known.
	//
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown"`
	// AvailableAfterLoss is how many pods would be left if the domain were lost whose loss costs most.
	//
	// +kubebuilder:validation:Minimum=0
	AvailableAfterLoss int32 `json:"availableAfterLoss"`
}
