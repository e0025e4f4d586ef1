// Package topology monitors the Cells of a core cluster. It checks whether their clusters are reachable and call the webhook, whether their
// aggregators report, and whether two Cells have the same pods. It reports this in their conditions, and marks cells that have become
// silent in protectors. It holds deleted Cells until no protector has an entry of them, and clears dead cells on request.
package topology

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
)

// Name is the name of the controller and of its field manager.
const Name = "breakwater-topology"

const (
	// lookEvery is how often the controller checks each Cell.
	lookEvery = 10 * time.Second
	// connectTime bounds the requests to a cell's cluster in one check.
	connectTime = 10 * time.Second
)

// Reconciler monitors Cells.
type Reconciler struct {
	// Cells has the connections to the clusters of Cells that do not refer to a kubeconfig themselves.
	Cells  map[string]*rest.Config
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Monotonic is a monotonic clock.
	Monotonic func() time.Time

	mu     sync.Mutex
	pulses heartbeat.Pulses
	// seen has the observed state of Cells, by name.
	seen map[string]seen
}

// seen is the state of a Cell that the Cell itself does not record.
type seen struct {
	// whose identifies its pulses: a later Cell of the same name starts with none.
	whose string
	// cluster is the identity of its cluster, if known.
	cluster string
	// expiry is when the token for its cluster expires; zero if it does not.
	expiry time.Time
	// beats are the heartbeats of its shards, if the cell is sharded.
	beats *beats
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cell := &v1alpha1.Cell{}
	if err := r.Client.Get(ctx, request.NamespacedName, cell); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again := reconcile.Result{RequeueAfter: lookEvery}
	if cell.DeletionTimestamp != nil {
		return again, r.release(ctx, cell)
	}
	if !controllerutil.ContainsFinalizer(cell, v1alpha1.FinalizerCell) {
		if err := clusters.AddFinalizer(ctx, r.Client, cellKind(), cell, v1alpha1.FinalizerCell, Name); err != nil {
			return reconcile.Result{}, fmt.Errorf("hold the Cell: %w", err)
		}
	}
	state, err := r.stateOf(ctx, cell)
	if err != nil {
		return reconcile.Result{}, err
	}
	conditions, err := r.judge(ctx, cell, state)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.tell(ctx, cell, conditions); err != nil {
		return reconcile.Result{}, err
	}
	return again, r.discount(ctx, cell, state)
}

func cellKind() schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind("Cell") }

// judge returns the desired conditions of the Cell.
func (r *Reconciler) judge(ctx context.Context, cell *v1alpha1.Cell, state report) ([]metav1.Condition, error) {
	connected, guarded := r.inspect(ctx, cell)
	conditions := []metav1.Condition{connected, guarded}
	if fresh, known := freshness(cell, state); known {
		conditions = append(conditions, fresh)
	}
	overlapping, worth, err := r.overlap(ctx, cell)
	if worth {
		conditions = append(conditions, overlapping)
	}
	return conditions, err
}

// stateOf reports whether the cell's aggregator reports. Before it declares the cell silent, it reads from the API server: a cache may lag.
func (r *Reconciler) stateOf(ctx context.Context, cell *v1alpha1.Cell) (report, error) {
	state := r.observe(cell)
	if state.state != heartbeat.Silent {
		return state, nil
	}
	live := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cell), live); err != nil {
		return report{}, fmt.Errorf("get the Cell from the apiserver: %w", err)
	}
	return r.observe(live), nil
}

func (r *Reconciler) observe(cell *v1alpha1.Cell) report {
	r.mu.Lock()
	defer r.mu.Unlock()
	reporter, now := cell.Status.Aggregator, r.Monotonic()
	beat := ""
	if reporter.LastHeartbeat != nil {
		beat = fmt.Sprint(reporter.Holder, " ", reporter.Epoch, " ", reporter.LastHeartbeat.UnixMicro())
	}
	whose := string(cell.UID)
	known := r.seen[cell.Name]
	if known.whose != whose {
		r.forgetPulses(known.whose)
		known = seen{whose: whose}
	}
	r.pulses.Observe(whose, beat, now)
	is := report{state: r.pulses.State(whose, cell.Spec.StaleAfterOrDefault(), now)}
	switch {
	case len(cell.Status.Shards) > 0:
		if known.beats == nil {
			known.beats = &beats{}
		}
		is = r.observeSlots(cell, known.beats)
	case is.state == heartbeat.Alive && known.beats != nil: // a single leader counts it now
		r.forgetSlots(whose)
		known.beats = nil
	}
	r.seen[cell.Name] = known
	return is
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetPulses(r.seen[name].whose)
	delete(r.seen, name)
}

// located records the identity of a cell's cluster, and when the token for it expires.
func (r *Reconciler) located(cell *v1alpha1.Cell, cluster string, expiry time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.seen[cell.Name]
	known.cluster, known.expiry = cluster, expiry
	r.seen[cell.Name] = known
}

// tokenExpiry returns when the token for a cell's cluster expires; ok is false if that is unknown, or the token does not expire.
func (r *Reconciler) tokenExpiry(cell *v1alpha1.Cell) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at = r.seen[cell.Name].expiry
	return at, !at.IsZero()
}

// clusterOf returns the identity of a cell's cluster; empty if it is unknown.
func (r *Reconciler) clusterOf(cell *v1alpha1.Cell) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(cell.Status.Cluster, r.seen[cell.Name].cluster)
}
