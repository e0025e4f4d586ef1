package snapshot

import (
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// readyPodSpeedup is the factor by which a pod that became ready is counted sooner when a removal may be waiting for budget.
const readyPodSpeedup = 10

// notifier enqueues the protectors whose pods have changed. The mutex of the snapshot guards it and is held during the calls of its
// functions, which must not block.
type notifier struct {
	protectors *protectorIndex
	// notifyProtector is called for the protectors of each pod in an event, with the time for which to gather their events.
	notifyProtector func(key types.NamespacedName, wait time.Duration)
	// hasNoBudget reports whether a protector can admit no removal now; set before the stream begins.
	hasNoBudget func(key types.NamespacedName) bool
}

// podChanged enqueues the protectors of a changed pod. A pod that became ready adds budget: it is counted sooner for a protector that has
// none.
func (n *notifier) podChanged(p *pod, becameReady bool) {
	for _, key := range n.protectors.of(p) {
		wait := n.protectors.covered[key].rate
		if becameReady && n.hasNoBudget(key) {
			wait /= readyPodSpeedup
		}
		n.notifyProtector(key, wait)
	}
}

// nodesChanged enqueues those of the protectors that have pods on nodes whose domain has changed (rule 12).
func (n *notifier) nodesChanged(protectors []types.NamespacedName, nodes map[unique.Handle[string]]bool) {
	for _, key := range protectors {
		m := n.protectors.covered[key]
		if m == nil {
			continue
		}
		for p := range m.pods {
			if nodes[p.node] {
				n.notifyProtector(key, m.rate)
				break
			}
		}
	}
}
