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

// PlanOf plans a drain of nodes, sequentially or in parallel. Nodes that need fewer waves come first. Pods without a controller are
// blocked from the start, because they would not be replaced.
func PlanOf(cell string, now time.Time, nodes []Node, parallel bool) Plan {
	plan := Plan{Nodes: []string{}, Waves: []Wave{}}
	var all []Pod
	for i := range nodes {
		var kept []Pod
		for _, p := range nodes[i].Pods {
			if p.Replaced || p.Request.Passes() {
				kept = append(kept, p)
				continue
			}
			plan.Blocked = append(plan.Blocked, Refusal{
				Pod: p.Name(), Node: nodes[i].Name, Verdict: "NoController",
				Message: "it has no controller that would make another one: kubectl drain leaves it without --force, and its removal is for good",
			})
		}
		nodes[i].Pods = kept
		all = append(all, kept...)
	}
	books := Open(cell, now, all)
	if parallel {
		for _, node := range nodes {
			plan.Nodes = append(plan.Nodes, node.Name)
		}
		plan.add(Play(books, all, Rule{Waits: true}))
		return plan
	}
	for _, node := range quickestFirst(cell, now, nodes) {
		plan.Nodes = append(plan.Nodes, node.Name)
		plan.add(Play(books, node.Pods, Rule{Waits: true}))
	}
	return plan
}

func (p *Plan) add(course Course) {
	for _, wave := range course.Waves {
		wave.Starts += p.Takes
		p.Waves = append(p.Waves, wave)
	}
	p.Takes += course.Takes
	p.Blocked = append(p.Blocked, course.Stuck...)
}

// quickestFirst orders nodes by the simulated drain of each node alone.
func quickestFirst(cell string, now time.Time, nodes []Node) []Node {
	alone := map[string]Course{}
	for _, node := range nodes {
		alone[node.Name] = Play(Open(cell, now, node.Pods), node.Pods, Rule{Waits: true})
	}
	ordered := slices.Clone(nodes)
	slices.SortStableFunc(ordered, func(a, b Node) int {
		x, y := alone[a.Name], alone[b.Name]
		return cmp.Or(cmp.Compare(len(x.Stuck), len(y.Stuck)), cmp.Compare(len(x.Waves), len(y.Waves)),
			cmp.Compare(x.Takes, y.Takes), cmp.Compare(len(a.Pods), len(b.Pods)), cmp.Compare(a.Name, b.Name))
	})
	return ordered
}
