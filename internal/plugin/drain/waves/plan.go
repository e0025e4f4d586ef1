package waves

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
	// Blocked are pods that block the drain, because no wave leaves enough budget.
	Blocked []Denial `json:"blocked,omitempty"`
	Takes   Span     `json:"takes"`
}

// NewPlan plans a drain of nodes, sequentially or in parallel. Nodes that need fewer waves come first. Pods without a controller come last on
// their node, because the budget that their removal consumes does not return. Without rule.AbortNode denied removals are retried until the
// timeout of their node.
func NewPlan(cell string, now time.Time, nodes []Node, parallel bool, rule Strategy) Plan {
	plan := Plan{Nodes: []string{}, Waves: []Wave{}}
	var all []Pod
	for i := range nodes {
		nodes[i].Pods = replacedFirst(nodes[i].Pods)
		all = append(all, nodes[i].Pods...)
	}
	all = replacedFirst(all)
	simulation := NewSimulation(cell, now, all)
	if parallel {
		for _, node := range nodes {
			plan.Nodes = append(plan.Nodes, node.Name)
		}
		plan.add(Simulate(simulation, all, rule))
		return plan
	}
	for _, node := range quickestFirst(cell, now, nodes, rule) {
		plan.Nodes = append(plan.Nodes, node.Name)
		plan.add(Simulate(simulation, node.Pods, rule))
	}
	return plan
}

func replacedFirst(pods []Pod) []Pod {
	isReplaced := func(p Pod) bool { return p.HasReplacement }
	isNotReplaced := func(p Pod) bool { return !p.HasReplacement }
	return append(slices.DeleteFunc(slices.Clone(pods), isNotReplaced), slices.DeleteFunc(slices.Clone(pods), isReplaced)...)
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
func quickestFirst(cell string, now time.Time, nodes []Node, rule Strategy) []Node {
	alone := map[string]Outcome{}
	for _, node := range nodes {
		alone[node.Name] = Simulate(NewSimulation(cell, now, node.Pods), node.Pods, rule)
	}
	ordered := slices.Clone(nodes)
	slices.SortStableFunc(ordered, func(a, b Node) int {
		x, y := alone[a.Name], alone[b.Name]
		return cmp.Or(cmp.Compare(len(x.Stuck), len(y.Stuck)), cmp.Compare(len(x.Waves), len(y.Waves)),
			cmp.Compare(x.Takes, y.Takes), cmp.Compare(len(a.Pods), len(b.Pods)), cmp.Compare(a.Name, b.Name))
	})
	return ordered
}
