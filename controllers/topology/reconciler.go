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

	"k8s.io/apimachinery/pkg/api/meta"
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
	// checkInterval is how often the controller checks each Cell.
	checkInterval = 10 * time.Second
	// connectTimeout bounds the requests to a cell's cluster in one check.
	connectTimeout = 10 * time.Second
)

// Reconciler monitors Cells.
type Reconciler struct {
	// Cells has the connections to the clusters of Cells that do not refer to a kubeconfig themselves.
	Cells  map[string]*rest.Config
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Renewer renews the tokens of kubeconfigs; nil for none.
	Renewer *clusters.TokenRenewer
	// Monotonic is a monotonic clock.
	Monotonic func() time.Time

	mu         sync.Mutex
	heartbeats heartbeat.Tracker
	// cellStates has the observed state of Cells, by name.
	cellStates map[string]cellState
}

// cellState is the state of a Cell that the Cell itself does not record.
type cellState struct {
	// key identifies its pulses: a later Cell of the same name starts with none.
	key string
	// cluster is the identity of its cluster, if known.
	cluster string
	// expiry is when the token for its cluster expires; zero if it does not.
	expiry time.Time
	// deletionSeen is when the controller first saw that the Cell is being deleted; zero if it is not.
	deletionSeen time.Time
	// tokenChecked is when that token was last checked.
	tokenChecked time.Time
	// heartbeat is its last heartbeat, with who wrote it; empty before the first.
	heartbeat string
	// slotHeartbeats are the heartbeats of its shards, if the cell is sharded.
	slotHeartbeats *slotHeartbeats
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
	requeue := reconcile.Result{RequeueAfter: checkInterval}
	if cell.DeletionTimestamp != nil {
		if wait := r.waitForEntries(cell); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		return requeue, r.releaseCell(ctx, cell)
	}
	if !controllerutil.ContainsFinalizer(cell, v1alpha1.FinalizerCell) {
		if err := clusters.AddFinalizer(ctx, r.Client, cellKind(), cell, v1alpha1.FinalizerCell, Name); err != nil {
			return reconcile.Result{}, fmt.Errorf("add the finalizer to the Cell: %w", err)
		}
	}
	state, err := r.currentReport(ctx, cell)
	if err != nil {
		return reconcile.Result{}, err
	}
	conditions, err := r.desiredConditions(ctx, cell, state)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.applyConditions(ctx, cell, conditions); err != nil {
		return reconcile.Result{}, err
	}
	return requeue, r.applyDiscount(ctx, cell, state)
}

func cellKind() schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind("Cell") }

func (r *Reconciler) desiredConditions(ctx context.Context, cell *v1alpha1.Cell, state report) ([]metav1.Condition, error) {
	connected, guarded, available := r.checkCluster(ctx, cell)
	conditions := []metav1.Condition{connected, guarded}
	if had := meta.FindStatusCondition(cell.Status.Conditions, available.Type); had != nil || available.Status != metav1.ConditionUnknown {
		conditions = append(conditions, available)
	}
	if renewed, isNeeded := r.renewToken(ctx, cell); isNeeded {
		conditions = append(conditions, renewed)
	}
	if fresh, isKnown := freshCondition(cell, state); isKnown {
		conditions = append(conditions, fresh)
	}
	overlapping, isNeeded, err := r.overlappingCondition(ctx, cell)
	if isNeeded {
		conditions = append(conditions, overlapping)
	}
	return conditions, err
}

// currentReport reports whether the cell's aggregator reports. Before it declares the cell silent, it reads from the API server: a cache may lag.
func (r *Reconciler) currentReport(ctx context.Context, cell *v1alpha1.Cell) (report, error) {
	state := r.observe(cell)
	if state.state != heartbeat.Silent {
		return state, nil
	}
	live := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cell), live); err != nil {
		return report{}, fmt.Errorf("get the Cell from the API server: %w", err)
	}
	return r.observe(live), nil
}

func (r *Reconciler) observe(cell *v1alpha1.Cell) report {
	r.mu.Lock()
	defer r.mu.Unlock()
	reporter, now := cell.Status.Aggregator, r.Monotonic()
	key := string(cell.UID)
	stored := r.cellStates[cell.Name]
	if stored.key != key {
		r.forgetHeartbeats(stored.key)
		stored = cellState{key: key}
	}
	if reporter.LastHeartbeat != nil { // a leader that has only taken the cell confirms nothing
		stored.heartbeat = fmt.Sprint(reporter.Holder, " ", reporter.Epoch, " ", reporter.LastHeartbeat.UnixMicro())
	}
	r.heartbeats.Observe(key, stored.heartbeat, now)
	current := report{state: r.heartbeats.State(key, cell.Spec.StaleAfterOrDefault(), now)}
	switch {
	case len(cell.Status.Shards) > 0:
		if stored.slotHeartbeats == nil {
			stored.slotHeartbeats = &slotHeartbeats{}
		}
		current = r.observeSlots(cell, stored.slotHeartbeats)
	case current.state == heartbeat.Alive && stored.slotHeartbeats != nil: // a single leader counts it now
		r.forgetSlotHeartbeats(key)
		stored.slotHeartbeats = nil
	}
	r.cellStates[cell.Name] = stored
	return current
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetHeartbeats(r.cellStates[name].key)
	delete(r.cellStates, name)
}

// recordCluster records the identity of a cell's cluster, and when the token for it expires.
func (r *Reconciler) recordCluster(cell *v1alpha1.Cell, cluster string, expiry time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored := r.cellStates[cell.Name]
	stored.cluster, stored.expiry = cluster, expiry
	r.cellStates[cell.Name] = stored
}

// tokenExpiry returns when the token for a cell's cluster expires; ok is false if that is unknown, or the token does not expire.
func (r *Reconciler) tokenExpiry(cell *v1alpha1.Cell) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at = r.cellStates[cell.Name].expiry
	return at, !at.IsZero()
}

// clusterOf returns the identity of a cell's cluster; empty if it is unknown.
func (r *Reconciler) clusterOf(cell *v1alpha1.Cell) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(cell.Status.Cluster, r.cellStates[cell.Name].cluster)
}
