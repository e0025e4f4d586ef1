// Package scenario draws from a seed what happens in a simulation: the objects at the beginning, the steps and the faults. It runs nothing.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// Scenario is one run, drawn from its seed: the components and objects, and the steps with their times.
type Scenario struct {
	Seed                         uint64
	Cores, Workers               int
	Webhooks, AggregatorsPerCell int
	Pods                         int
	Protectors                   []ProtectorPlan
	// Generated also makes the generator derive a protector from a Deployment.
	Generated bool
	// Kept runs keepers, which hold all protectors and recreate those that vanish.
	Kept bool
	// Shared makes the aggregators of a cell shards of a ring, which divide the cell. Spaces is the number of namespaces then.
	Shared bool
	Spaces int
	// Shares lets cells decide on shares of the floor; see shares.go. HadShares lets them have had shares before, so that the aggregators that
	// count for shares already do so when the first one is created.
	Shares, HadShares bool
	// Brake has the limits of the release brake, and the Deployments that exercise it.
	Brake BrakePlan
	Storm Storm
	Steps []Step
	// Workloads are the workloads of the worker clusters; see workloadplan.go.
	Workloads []WorkloadPlan
	// Topology runs the topology controller; see topology.go.
	Topology TopologyPlan
	// Updates gives pods containers that clients update; see updates.go.
	Updates bool
	// Scope makes the webhooks of the cells depend on a label of namespaces; see scope.go.
	Scope ScopePlan
}

// ProtectorPlan describes a protector of the pods with a label.
type ProtectorPlan struct {
	Name, Label            string
	Core, Floor, Space     int
	Compact, Lag, MinReady int
	RateMillis             int
	// MindsLoss makes the protector tolerate the loss of a cell.
	MindsLoss bool
	// Computed is a floor that is not a number of pods.
	Computed ComputedFloor
	// Target is the name of the Rollout that the protector names; empty for a protector with a selector.
	Target string
	// NoRelabels leaves Relabel out of the operations that the protector guards.
	NoRelabels bool
	// Updates makes the protector guard updates and resizes.
	Updates bool
	// Criterion is the state in which a pod counts; empty is the default.
	Criterion v1alpha1.Criterion
	// CoreOutage is what cells do while they cannot reach the core; empty is the default.
	CoreOutage v1alpha1.CoreOutage
	// Exempts makes the protector exempt pods with exemptLabels. CountsAll makes it count all pods of its namespace, including pods that
	// it does not cover.
	Exempts, CountsAll bool
}

// Storm is the intensity of the network and client faults.
type Storm struct {
	LoseAnswers, DenyEvictions float64
	Weather                    apiserver.Weather
}

// Step is one thing that happens. What determines which of its fields are used.
type Step struct {
	At   time.Duration
	What StepKind
	// Cell and Core are indices. Who selects a pod, a process or a protector among those that exist at that time.
	Cell, Core, Who int
	// N is a number, such as a floor or a count.
	N int
	// For is a duration: the grace period of a removal, or the length of a pause or a cut.
	For time.Duration
	// To is the size that Deployments are scaled to, in percent. Every is the time from one Deployment to the next.
	To    int
	Every time.Duration
	// Stuck is how long a removal hangs after its review. DeniedLater makes another webhook refuse it.
	Stuck       time.Duration
	DeniedLater bool
}

func (s Step) String() string {
	text := fmt.Sprintf("%12s  %s (cell %d, core %d, who %d, n %d", s.At, s.What, s.Cell, s.Core, s.Who, s.N)
	if s.For > 0 {
		text += fmt.Sprintf(", for %s", s.For)
	}
	if s.Every > 0 {
		text += fmt.Sprintf(", to %d %%, every %s", s.To, s.Every)
	}
	if s.Stuck > 0 {
		text += fmt.Sprintf(", stuck for %s", s.Stuck)
	}
	if s.DeniedLater {
		text += ", refused by another webhook"
	}
	return text + ")"
}

func (s Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d cores, %d workers, %d webhooks, %d aggregators a cell, shared %v, %d pods in %d namespaces, generated %v, kept %v\n",
		s.Seed, s.Cores, s.Workers, s.Webhooks, s.AggregatorsPerCell, s.Shared, s.Pods, max(s.Spaces, 1), s.Generated, s.Kept)
	fmt.Fprintf(&b, "storm %+v\n", s.Storm)
	for _, p := range s.Protectors {
		fmt.Fprintf(&b, "protector %+v\n", p)
	}
	if s.Topology.Runs {
		fmt.Fprintf(&b, "topology %+v\n", s.Topology)
	}
	if s.Scope.Protected {
		fmt.Fprintf(&b, "scope %+v\n", s.Scope)
	}
	for _, w := range s.Workloads {
		if w.Labeled {
			fmt.Fprintf(&b, "workload %+v\n", w)
		}
	}
	if s.Brake.Window > 0 {
		fmt.Fprintf(&b, "brake %+v\n", s.Brake)
	}
	for _, step := range s.Steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// IsKept reports whether keepers run. They run wherever a generator runs.
func (s Scenario) IsKept() bool { return s.Kept || s.Generated }

// AgesMatter reports whether any protector counts pods by how long they have been ready.
func (s Scenario) AgesMatter() bool {
	return s.changesCoverage() || slices.ContainsFunc(s.Protectors, func(p ProtectorPlan) bool { return p.MinReady > 0 })
}
