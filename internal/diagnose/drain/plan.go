package drain

import (
	"cmp"
	"slices"
	"time"
)

// Node is a node to drain.
type Node struct {
	Name string
	Pods []Pod
}

// Plan is an order in which nodes can be drained.
type Plan struct {
	Nodes []string `json:"nodes"`
	Waves []Wave   `json:"waves"`
	// Blocked are pods that block the drain: they have no controller that replaces them, or no wave leaves enough budget.
	Blocked []Refusal `json:"blocked,omitempty"`
	Takes   Span      `json:"takes"`
}

// NewPlan plans a drain of nodes, sequentially or in parallel. Nodes that need fewer waves come first. Pods without a controller are
// blocked from the start, because they would not be replaced.
func NewPlan(cell string, now time.Time, nodes []Node, parallel bool) Plan {
	plan := Plan{Nodes: []string{}, Waves: []Wave{}}
	var all []Pod
	for i := range nodes {
		var replaceable []Pod
		for _, p := range nodes[i].Pods {
			if p.HasReplacement || p.Request.IsAlwaysAllowed() {
				replaceable = append(replaceable, p)
				continue
			}
			plan.Blocked = append(plan.Blocked, Refusal{
				Pod: p.Name(), Node: nodes[i].Name, Verdict: "NoController",
				Message: "it has no controller that would recreate it: kubectl drain removes it only with --force, and the pod does not return",
			})
		}
		nodes[i].Pods = replaceable
		all = append(all, replaceable...)
	}
	simulation := NewSimulation(cell, now, all)
	if parallel {
		for _, node := range nodes {
			plan.Nodes = append(plan.Nodes, node.Name)
		}
		plan.add(Simulate(simulation, all, Strategy{WaitForReplacements: true}))
		return plan
	}
	for _, node := range quickestFirst(cell, now, nodes) {
		plan.Nodes = append(plan.Nodes, node.Name)
		plan.add(Simulate(simulation, node.Pods, Strategy{WaitForReplacements: true}))
	}
	return plan
}

func (p *Plan) add(outcome Outcome) {
	for _, wave := range outcome.Waves {
		wave.Starts += p.Takes
		p.Waves = append(p.Waves, wave)
	}
	p.Takes += outcome.Takes
	p.Blocked = append(p.Blocked, outcome.Stuck...)
}

// quickestFirst orders nodes by the simulated drain of each node alone.
func quickestFirst(cell string, now time.Time, nodes []Node) []Node {
	alone := map[string]Outcome{}
	for _, node := range nodes {
		alone[node.Name] = Simulate(NewSimulation(cell, now, node.Pods), node.Pods, Strategy{WaitForReplacements: true})
	}
	ordered := slices.Clone(nodes)
	slices.SortStableFunc(ordered, func(a, b Node) int {
		x, y := alone[a.Name], alone[b.Name]
		return cmp.Or(cmp.Compare(len(x.Stuck), len(y.Stuck)), cmp.Compare(len(x.Waves), len(y.Waves)),
			cmp.Compare(x.Takes, y.Takes), cmp.Compare(len(a.Pods), len(b.Pods)), cmp.Compare(a.Name, b.Name))
	})
	return ordered
}
