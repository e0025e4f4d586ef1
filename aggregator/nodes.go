package aggregator

import (
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// nodes is what is known of a cell's nodes: of each the values of those labels that protectors ask for. While none does, nothing is.
type nodes struct {
	// moved is told of protectors, some of which may have pods on nodes whose domain is another one now; read, of each that waits
	// for the nodes, that there is an answer. Neither may block.
	moved func(protectors []types.NamespacedName, nodes map[unique.Handle[string]]bool)
	read  func(protector types.NamespacedName)
	now   func() time.Time
	// poke asks for another look at which labels are asked for.
	poke chan struct{}

	mu     sync.Mutex
	labels map[string]*nodeLabel
	// asked is the label that a protector asks for.
	asked map[types.NamespacedName]string
	// asks counts the labels that came to be asked for.
	asks int
	// problem is why nodes cannot be read; empty is nothing. denied tells that they may not be, and what was read before is not
	// relied on any more: it would never be corrected.
	problem string
	denied  bool
}

// nodeLabel is a label that some protector asks for.
type nodeLabel struct {
	since      time.Time
	protectors map[types.NamespacedName]struct{}
	// domains are the values of the nodes that have the label, by the nodes' names; nil until all nodes were read.
	domains map[unique.Handle[string]]unique.Handle[string]
}

func newNodes(
	moved func([]types.NamespacedName, map[unique.Handle[string]]bool), read func(types.NamespacedName), now func() time.Time,
) *nodes {
	return &nodes{
		moved: moved, read: read, now: now, poke: make(chan struct{}, 1),
		labels: map[string]*nodeLabel{}, asked: map[types.NamespacedName]string{},
	}
}

// nodeLabelOf is the label of nodes that a spec asks for; empty is none.
func nodeLabelOf(spec *v1alpha1.PodProtectorSpec) string {
	if spec.Spread == nil || spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell {
		return ""
	}
	return spec.Spread.TopologyKey
}

// nodesPatience is how long a count waits for nodes that are read for the first time, so that a new leader does not tell for a
// moment that no domain is known. It waits for no attempt that has failed.
const nodesPatience = time.Second

// ask notes that a protector asks for a label, instead of what it asked for before, and returns how long it is worth to wait for it.
func (n *nodes) ask(protector types.NamespacedName, label string) (wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked[protector] != label {
		n.drop(protector)
	}
	if label == "" {
		return 0
	}
	l := n.labels[label]
	if l == nil {
		l = &nodeLabel{since: n.now(), protectors: map[types.NamespacedName]struct{}{}}
		n.labels[label] = l
		n.asks++
		nudge(n.poke)
	}
	n.asked[protector], l.protectors[protector] = label, struct{}{}
	if l.domains != nil || n.problem != "" {
		return 0
	}
	return max(l.since.Add(nodesPatience).Sub(n.now()), 0)
}

// leave ends what a protector asked for.
func (n *nodes) leave(protector types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(protector)
}

// giveUp ends what the protectors of some slots asked for.
func (n *nodes) giveUp(slots slot.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	protectors := map[types.NamespacedName]bool{}
	keysOf(slots, n.asked, protectors)
	for protector := range protectors {
		n.drop(protector)
	}
}

func (n *nodes) drop(protector types.NamespacedName) {
	label := n.asked[protector]
	delete(n.asked, protector)
	l := n.labels[label]
	if l == nil {
		return
	}
	if delete(l.protectors, protector); len(l.protectors) == 0 {
		delete(n.labels, label)
		nudge(n.poke)
	}
}

// wanted are the labels that are asked for, and how many ever came to be.
func (n *nodes) wanted() (labels []string, asks int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.labels)), n.asks
}

// place says in which domains of a label pods are, by their nodes.
func (n *nodes) place(label string, pods map[unique.Handle[string]]int32) *v1alpha1.CellDomains {
	n.mu.Lock()
	defer n.mu.Unlock()
	placed, unknown, problem := map[string]int32{}, int32(0), ""
	l := n.labels[label]
	switch {
	case n.denied || l != nil && l.domains == nil && n.problem != "":
		problem = n.problem
	case l == nil || l.domains == nil:
		problem = "the nodes of the cell are not read yet"
	}
	for node, number := range pods {
		var domain unique.Handle[string]
		known := problem == ""
		if known {
			domain, known = l.domains[node]
		}
		if !known {
			unknown += number
			continue
		}
		placed[domain.Value()] += number
	}
	return cellDomains(label, placed, unknown, problem)
}
