package review

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// maxCountedProtectors is how many protectors have a counter of their own: the first ones that deny, until they are deleted.
const maxCountedProtectors = 1000

// otherProtectors is the label for the protectors without a counter of their own. No protector has that name, because it has no
// namespace.
const otherProtectors = "others"

// denialCounter counts denials by the protector that denied.
type denialCounter struct {
	counter *prometheus.CounterVec

	mu      sync.Mutex
	counted map[countedProtector]bool
}

// countedProtector is a protector of a core.
type countedProtector struct {
	core      string
	protector types.NamespacedName
}

func newDenialCounter() *denialCounter {
	return &denialCounter{
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_refusals_total", Help: "Removals that a protector refused, by core cluster and protector.",
		}, []string{"core", "protector"}),
		counted: map[countedProtector]bool{},
	}
}

func (c *denialCounter) inc(core string, protector types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, id := otherProtectors, countedProtector{core, protector}
	if c.counted[id] || len(c.counted) < maxCountedProtectors {
		c.counted[id], name = true, protector.String()
	}
	c.counter.WithLabelValues(core, name).Inc()
}

// drop removes the counter of a deleted protector, which makes room for another one.
func (c *denialCounter) drop(core string, protector types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := (countedProtector{core, protector}); c.counted[id] {
		delete(c.counted, id)
		c.counter.DeleteLabelValues(core, protector.String())
	}
}
