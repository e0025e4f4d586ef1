package shares

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Monitor reports whether the shares of the cell can move, as a metric and as the condition Joined of the Cell in the cell's own
// cluster, since the core cannot be written while it is unreachable. It outlives leaderships, which an outage of the core ends.
type Monitor struct {
	cell string
	// core reads live from the core, and shares from a cache of the cell's cluster.
	core   client.Reader
	shares client.Client
	// keeper returns the keeper of the current leadership; nil while another process leads.
	keeper    func() *Keeper
	gauge     *prometheus.GaugeVec
	monotonic func() time.Time
	log       logr.Logger

	// reachedAt is when the core last answered, or when the monitor began. led reports whether the process led the cell then.
	reachedAt time.Time
	led       bool
	// state is the last one, and unwritten reports that its condition could not be written.
	state     string
	unwritten bool
}

// NewMonitor returns the monitor of a cell's shares. core reads live from the core, shares from a cache of the cell's cluster, and keeper returns that of the
// current leadership; nil while another process leads.
func NewMonitor(
	cell string, core client.Reader, shares client.Client, keeper func() *Keeper, gauge *prometheus.GaugeVec, monotonic func() time.Time, log logr.Logger,
) *Monitor {
	return &Monitor{
		cell: cell, core: core, shares: shares, keeper: keeper, gauge: gauge, monotonic: monotonic, log: log, reachedAt: monotonic(),
	}
}

// shareObservationInterval is the time between two observations, and the longest time that one waits for an API server.
const shareObservationInterval = 5 * time.Second

// Run observes the shares until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := m.observe(ctx); err != nil && ctx.Err() == nil {
			m.log.Error(err, "Failed to report the state of the cell's shares")
		}
	}, shareObservationInterval)
}

// observe determines the state of the shares, and reports it.
func (m *Monitor) observe(ctx context.Context) error {
	keeper := m.keeper()
	shares, err := m.list(ctx, keeper)
	if err != nil {
		return err
	}
	contact := shareContact{shares: len(shares), silence: m.probe(ctx, keeper != nil), leads: keeper != nil, led: m.led}
	if keeper != nil {
		if m.state == v1alpha1.ReasonLocal && contact.silence == 0 {
			keeper.compared.restart()
			for _, protector := range shares {
				keeper.Queue.Add(protector)
			}
		}
		contact.uncompared = keeper.compared.missing(shares)
	}
	before := m.state
	m.state = contact.state()
	m.setGauge(contact.shares > 0)
	if m.state != before && m.state != "" {
		m.log.Info("State of the cell's shares changed", "state", m.state)
	}
	// A process that does not reach the core, while the leader does, writes Local once. The leader then corrects it.
	if keeper == nil && (m.state == "" || m.state == before && !m.unwritten) {
		return nil
	}
	err = m.writeCondition(ctx)
	m.unwritten = err != nil
	return err
}

// list returns the protectors of the shares that the leadership moves; without one, of all shares of the cell.
func (m *Monitor) list(ctx context.Context, keeper *Keeper) (shares []types.NamespacedName, err error) {
	all := &v1alpha1.PodProtectorList{}
	if err := m.shares.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range all.Items {
		namespace, of := all.Items[i].Namespace, all.Items[i].Spec.ShareOf
		if of != nil && of.Cell == m.cell && (keeper == nil || keeper.Owns(namespace)) {
			shares = append(shares, types.NamespacedName{Namespace: namespace, Name: of.Name})
		}
	}
	return shares, nil
}

// probe returns for how long the core has not answered; 0 if it answers now.
func (m *Monitor) probe(ctx context.Context, leads bool) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, shareObservationInterval)
	defer cancel()
	err := m.core.Get(ctx, client.ObjectKey{Name: m.cell}, &v1alpha1.Cell{})
	if err != nil && !apierrors.IsNotFound(err) {
		return max(m.monotonic().Sub(m.reachedAt), time.Nanosecond)
	}
	m.reachedAt, m.led = m.monotonic(), leads
	return 0
}

func (m *Monitor) setGauge(hasShares bool) {
	if !hasShares {
		m.gauge.Reset()
		return
	}
	for _, state := range []string{v1alpha1.ReasonJoined, v1alpha1.ReasonLocal, v1alpha1.ReasonReturning} {
		value := 0.0
		if state == m.state {
			value = 1
		}
		m.gauge.WithLabelValues(state).Set(value)
	}
}

// writeCondition writes the condition Joined, or removes it if the cell has no shares.
func (m *Monitor) writeCondition(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shareObservationInterval)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell := &v1alpha1.Cell{}
		if err := m.shares.Get(ctx, client.ObjectKey{Name: m.cell}, cell); err != nil {
			return client.IgnoreNotFound(err) // the next observation writes it
		}
		changed := false
		if m.state == "" {
			changed = meta.RemoveStatusCondition(&cell.Status.Conditions, v1alpha1.ConditionJoined)
		} else {
			changed = meta.SetStatusCondition(&cell.Status.Conditions, joinedCondition(m.state, cell.Generation))
		}
		if !changed {
			return nil
		}
		return m.shares.Status().Update(ctx, cell)
	})
}

func joinedCondition(state string, generation int64) metav1.Condition {
	joined := metav1.Condition{Type: v1alpha1.ConditionJoined, Status: metav1.ConditionFalse, Reason: state, ObservedGeneration: generation}
	switch state {
	case v1alpha1.ReasonJoined:
		joined.Status = metav1.ConditionTrue
		joined.Message = "The aggregator reaches the core cluster and has compared all shares of this cell with their protectors: budget moves between cells."
	case v1alpha1.ReasonLocal:
		joined.Message = "The aggregator does not reach the core cluster: the shares of this cell decide removals, and no budget moves between cells."
	case v1alpha1.ReasonReturning:
		joined.Message = "The aggregator reaches the core cluster, and is comparing the shares of this cell with their protectors."
	}
	return joined
}
