package webhook

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// mostBlamed is how many protectors have a counter of their own: the first ones that refuse, until they are deleted.
const mostBlamed = 1000

// others is the label for the protectors without a counter of their own. No protector has that name, because it has no
// namespace.
const others = "others"

// tally counts refusals by the protector that refused.
type tally struct {
	counter *prometheus.CounterVec

	mu    sync.Mutex
	named map[blamed]bool
}

// blamed is a protector of a core.
type blamed struct {
	core      string
	protector types.NamespacedName
}

func newTally() *tally {
	return &tally{
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_webhook_refusals_total", Help: "Removals that a protector refused, by core cluster and protector.",
		}, []string{"core", "protector"}),
		named: map[blamed]bool{},
	}
}

func (t *tally) refused(core string, protector types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, who := others, blamed{core, protector}
	if t.named[who] || len(t.named) < mostBlamed {
		t.named[who], name = true, protector.String()
	}
	t.counter.WithLabelValues(core, name).Inc()
}

// forget removes the counter of a deleted protector, which makes room for another one.
func (t *tally) forget(core string, protector types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if who := (blamed{core, protector}); t.named[who] {
		delete(t.named, who)
		t.counter.DeleteLabelValues(core, protector.String())
	}
}
