package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// nodes stores, of each node of a cell, the values of those labels that protectors use (rule 12). While no protector uses one, it is empty.
type nodes struct {
	// onMoved is called with protectors of which some may have pods on nodes whose domain has changed; read is called for each
	// protector that waits for the nodes when there is a result. Neither may block.
	onMoved func(protectors []types.NamespacedName, nodes map[unique.Handle[string]]bool)
	onRead  func(protector types.NamespacedName)
	now     func() time.Time
	// labelsChanged requests another check of which labels are used.
	labelsChanged chan struct{}

	mu     sync.Mutex
	labels map[string]*nodeLabel
	// labelOf is the label that each protector uses.
	labelOf map[types.NamespacedName]string
	// requests counts the labels that were ever added.
	requests int
	// problem is why nodes cannot be read; empty if they can. denied reports that the API server denies access. Nodes that were read
	// before are then ignored, because they would never be corrected.
	problem string
	denied  bool
}

// nodeLabel is a label that some protector uses.
type nodeLabel struct {
	since      time.Time
	protectors map[types.NamespacedName]struct{}
	// domains are the values of the nodes that have the label, by node name; nil until all nodes were read.
	domains map[unique.Handle[string]]unique.Handle[string]
}

func newNodes(
	onMoved func([]types.NamespacedName, map[unique.Handle[string]]bool), onRead func(types.NamespacedName), now func() time.Time,
) *nodes {
	return &nodes{
		onMoved: onMoved, onRead: onRead, now: now, labelsChanged: make(chan struct{}, 1),
		labels: map[string]*nodeLabel{}, labelOf: map[types.NamespacedName]string{},
	}
}

// nodeLabelOf returns the node label that a spec uses; empty for none.
func nodeLabelOf(spec *v1alpha1.PodProtectorSpec) string {
	if spec.Spread == nil || spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell {
		return ""
	}
	return spec.Spread.TopologyKey
}

// nodesWait is how long a count waits for nodes that are read for the first time, so that a new leader does not briefly report
// that no domain is known. It does not wait after a failed attempt.
const nodesWait = time.Second

// requestLabel records that a protector uses a label instead of its previous one, and returns how long to wait for it.
func (n *nodes) requestLabel(protector types.NamespacedName, label string) (wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.labelOf[protector] != label {
		n.dropLabel(protector)
	}
	if label == "" {
		return 0
	}
	l := n.labels[label]
	if l == nil {
		l = &nodeLabel{since: n.now(), protectors: map[types.NamespacedName]struct{}{}}
		n.labels[label] = l
		n.requests++
		ownership.Notify(n.labelsChanged)
	}
	n.labelOf[protector], l.protectors[protector] = label, struct{}{}
	if l.domains != nil || n.problem != "" {
		return 0
	}
	return max(l.since.Add(nodesWait).Sub(n.now()), 0)
}

// releaseLabel removes the label that a protector uses.
func (n *nodes) releaseLabel(protector types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLabel(protector)
}

// releaseSlots removes the labels that the protectors of some slots use.
func (n *nodes) releaseSlots(slots slot.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	protectors := map[types.NamespacedName]bool{}
	ownership.AddKeysIn(slots, n.labelOf, protectors)
	for protector := range protectors {
		n.dropLabel(protector)
	}
}

func (n *nodes) dropLabel(protector types.NamespacedName) {
	label := n.labelOf[protector]
	delete(n.labelOf, protector)
	l := n.labels[label]
	if l == nil {
		return
	}
	if delete(l.protectors, protector); len(l.protectors) == 0 {
		delete(n.labels, label)
		ownership.Notify(n.labelsChanged)
	}
}

// usedLabels returns the labels in use, and how many were ever added.
func (n *nodes) usedLabels() (labels []string, requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.labels)), n.requests
}

// distribution returns the distribution of pods over the domains of a label, given the number of pods on each node.
func (n *nodes) distribution(label string, pods map[unique.Handle[string]]int32) *v1alpha1.CellDomains {
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
	return CellDomains(label, placed, unknown, problem)
}

// CellDomains returns how pods are distributed over domains, limited to what a status holds. If there are too many domains, it
// lists the largest; of equally large ones the first by name, so that the same pods always give the same status.
func CellDomains(key string, pods map[string]int32, unknown int32, problem string) *v1alpha1.CellDomains {
	d := &v1alpha1.CellDomains{TopologyKey: key, Unknown: unknown, Problem: problem}
	names := slices.Sorted(maps.Keys(pods))
	if len(names) > v1alpha1.MostDomains {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(pods[b], pods[a]) })
		d.Others = &v1alpha1.OtherDomains{}
		for _, name := range names[v1alpha1.MostDomains:] {
			d.Others.Domains++
			d.Others.Counted += pods[name]
			d.Others.Largest = max(d.Others.Largest, pods[name])
		}
		names = names[:v1alpha1.MostDomains]
		slices.Sort(names)
	}
	for _, name := range names {
		d.Domains = append(d.Domains, v1alpha1.DomainCount{Name: name, Counted: pods[name]})
	}
	return d
}

// RequestNodes records that a protector uses the node label of its spec, if it names one, and returns how long to wait until the nodes are read.
func (s *Snapshot) RequestNodes(protector types.NamespacedName, spec *v1alpha1.PodProtectorSpec) (wait time.Duration) {
	return s.nodes.requestLabel(protector, nodeLabelOf(spec))
}
