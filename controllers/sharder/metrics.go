package sharder

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Metrics are the metrics of the sharder, documented in docs/reference/metrics.md. Only those of the leader are meaningful. They have a label for the
// ring, but none for the shard: a ring may have a thousand shards.
type Metrics struct {
	shards, objects                                        *prometheus.GaugeVec
	largest                                                *prometheus.GaugeVec
	moves, assignments, passes, conflicts, revoked, failed *prometheus.CounterVec
	duration                                               *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "breakwater_ring_" + name, Help: help}, append([]string{"ring"}, labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "breakwater_ring_" + name, Help: help}, append([]string{"ring"}, labels...))
	}
	m := &Metrics{
		shards:      gauge("shards", "Shards of a ring by state, derived from their Leases.", "state"),
		objects:     gauge("objects", "Objects of a ring's resources at the last count.", "state"),
		largest:     gauge("largest_shard_objects", "Objects of the shard that has the most."),
		moves:       counter("moves_total", "Objects that a shard was asked to release, by outcome.", "outcome"),
		assignments: counter("assignments_total", "Objects that the sharder assigned because the admission webhook did not, by cause.", "cause"),
		passes:      counter("passes_total", "Passes over the objects of a ring, by outcome.", "outcome"),
		conflicts:   counter("patch_conflicts_total", "Conflicts: writes of the sharder to objects that another client had changed."),
		revoked:     counter("revoked_shards_total", "Shards that the sharder removed from a ring because they did not release an object in time."),
		failed:      counter("failed_writes_total", "Failed writes to objects, without conflicts."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "breakwater_ring_pass_duration_seconds", Help: "Duration of passes over the objects of a ring, including the moves that they caused.",
			Buckets: prometheus.ExponentialBuckets(0.05, 4, 9),
		}, []string{"ring"}),
	}
	registry.MustRegister(m.shards, m.objects, m.largest, m.moves, m.assignments, m.passes, m.conflicts, m.revoked, m.failed, m.duration)
	return m
}

// createSeries creates the series of a ring, so that they exist before their first increment.
func (m *Metrics) createSeries(ring string) {
	for _, outcome := range []string{moveDone, moveStayed, moveUnassigned, moveDeleted} {
		m.moves.WithLabelValues(ring, outcome)
	}
	for _, cause := range []string{causeUnassigned, causeGone, causeController} {
		m.assignments.WithLabelValues(ring, cause)
	}
	for _, outcome := range []string{passDone, passLight, passAgain, passOutdated, passFailed} {
		m.passes.WithLabelValues(ring, outcome)
	}
	for _, c := range []*prometheus.CounterVec{m.conflicts, m.revoked, m.failed} {
		c.WithLabelValues(ring)
	}
}

func (m *Metrics) deleteSeries(ring string) {
	labels := prometheus.Labels{"ring": ring}
	for _, c := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.shards, m.objects, m.largest, m.moves, m.assignments, m.passes, m.conflicts, m.revoked, m.failed, m.duration} {
		c.DeletePartialMatch(labels)
	}
}

func (m *Metrics) setCounts(ring string, c count) {
	m.objects.WithLabelValues(ring, "assigned").Set(float64(c.assigned))
	m.objects.WithLabelValues(ring, "draining").Set(float64(c.draining))
	m.objects.WithLabelValues(ring, "unassigned").Set(float64(c.unassigned))
	most := int64(0)
	for _, n := range c.byShard {
		most = max(most, n)
	}
	m.largest.WithLabelValues(ring).Set(float64(most))
}

func (m *Metrics) setMembers(ring string, all []v1alpha1.RingMember) {
	states := map[v1alpha1.ShardState]int{
		v1alpha1.ShardReady: 0, v1alpha1.ShardExpired: 0, v1alpha1.ShardUncertain: 0, v1alpha1.ShardDead: 0, v1alpha1.ShardOrphaned: 0,
	}
	for _, member := range all {
		states[member.State]++
	}
	for state, n := range states {
		m.shards.WithLabelValues(ring, string(state)).Set(float64(n))
	}
}

func (m *Metrics) observePass(ring, outcome string, took time.Duration) {
	m.passes.WithLabelValues(ring, outcome).Inc()
	m.duration.WithLabelValues(ring).Observe(took.Seconds())
}
