package aggregator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// leadership is one leadership of a cell, and all its knowledge.
type leadership struct {
	*Aggregator
	epoch int64
	// ownership is the slots that it has, if shards share the cell; nil is all of them, with the epoch of the leadership.
	ownership   *slotOwnership
	incarnation *Incarnation
	// highestForeignEpoch is the highest epoch that was found above one of its own.
	highestForeignEpoch atomic.Int64
	// rebalanceRequests requests a check of which slots the shards have, and relist another list; whole reports that a list was received.
	rebalanceRequests, relistRequests chan struct{}
	listReceived                      atomic.Bool
	startState
	// beganAt is when the leadership began, on the monotonic clock.
	beganAt  time.Time
	snapshot *Snapshot
	// readLive asks the cell's API server for the pods of a namespace that a selector matches.
	readLive func(ctx context.Context, namespace, selector string) (liveRead, error)
	// readPod asks it for one pod; nil if there is none of that name.
	readPod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// readCell reads the Cell, and the current version of the core, from the core's API server.
	readCell func(ctx context.Context) (*v1alpha1.Cell, uint64, error)
	// workloads and followed determine how many pods are expected, for floors that are computed from that.
	workloads     *workloads
	workloadIndex *workloadIndex
	queue         workqueue.TypedRateLimitingInterface[types.NamespacedName]
	firstEvents   firstEvents
	log           logr.Logger
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	// admissionDeadline is the Cell's, in nanoseconds, as of the last heartbeat.
	admissionDeadline atomic.Int64

	// lastOpen is when the Cell was last read and could have entries, on the monotonic clock in nanoseconds since began. It starts at the
	// time when the epoch was raised.
	lastOpen atomic.Int64
	// draining reports that the Cell is being deleted.
	draining atomic.Bool
	// triggerLabels are the labels of the update trigger.
	triggerLabels atomic.Pointer[map[string]string]
	// mustProbe reports that a heartbeat must confirm that the cell answers, unheard that the cell did not answer last, and stale that a
	// count was left as stale because of that.
	mustProbe, unreachable, leftStale atomic.Bool

	mu        sync.Mutex
	deadlines map[types.NamespacedName]*quota.Deadlines
	// initialCounts has the protectors that are counted for the first time, until the snapshot is enough to do so.
	initialCounts map[types.NamespacedName]*initialCount
	// cleared has the protectors whose counts were cleared.
	cleared map[types.NamespacedName]clearedEntry
	// settleDelays has the protectors whose counts are void.
	settleDelays map[types.NamespacedName]settleDelay
	// nextAliveReads is when the cell may be asked again which pods of a protector are alive, on the monotonic clock.
	nextAliveReads map[types.NamespacedName]time.Time
}

var errDeposed = errors.New("a later leader has written")

// lead runs one leadership, until ctx ends or the leadership's knowledge turns out to be void.
func (a *Aggregator) lead(ctx context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	mark := a.restoreDetector.Mark()
	state, err := a.raiseEpoch(ctx)
	if err != nil {
		a.log.Error(err, "Failed to take the leadership of the cell")
		return
	}
	cell := state.cell
	l := a.newLeadership(ctx, state, stop)
	l.epoch, l.log = cell.Status.Aggregator.Epoch, a.log.WithValues("epoch", cell.Status.Aggregator.Epoch)
	a.metrics.leading.Set(1)
	a.metrics.epoch.Set(float64(l.epoch))
	a.current.Store(l)
	if !a.restoreDetector.IsSameIncarnation(mark) {
		stop(errRestored) // the restore was reported before this leadership was stored
	}
	l.log.Info("Leading")
	l.run(ctx)
	a.current.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.spread.clear()
	l.log.Info("Stopped leading", "reason", endReason(ctx))
	l.reportRelease(context.WithoutCancel(ctx), endReason(ctx))
}

// newLeadership creates a term without any knowledge.
func (a *Aggregator) newLeadership(ctx context.Context, state startState, stop context.CancelCauseFunc) *leadership {
	pods, err := scope.Of(&state.cell.Spec)
	if err != nil {
		a.log.Error(err, "Failed to parse the scope of the Cell; counting no pods")
	}
	l := &leadership{
		Aggregator:     a,
		startState:     state,
		beganAt:        a.monotonic(),
		readLive:       a.readLive,
		readPod:        a.readPod,
		readCell:       a.readCell,
		stop:           stop,
		log:            a.log,
		deadlines:      map[types.NamespacedName]*quota.Deadlines{},
		initialCounts:  map[types.NamespacedName]*initialCount{},
		cleared:        map[types.NamespacedName]clearedEntry{},
		settleDelays:   map[types.NamespacedName]settleDelay{},
		nextAliveReads: map[types.NamespacedName]time.Time{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second)),
	}
	l.initWorkloads(ctx)
	l.snapshot = newSnapshot(l.podsChanged, func(err error) { stop(err) }, l.clock.now, l.monotonic)
	l.snapshot.scope, l.snapshot.hasNoBudget = pods, l.hasNoBudget
	l.applyCell(state.cell)
	return l
}

func endReason(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "stopped, or lost the lease"
}

func (l *leadership) run(ctx context.Context) {
	l.expectInitialCounts(allNamespaces)
	var running sync.WaitGroup
	running.Go(func() { newStream(l.cellClientset, l.snapshot, l.log).RunWithContext(ctx) })
	running.Go(func() { l.watchNodes(ctx) })
	select {
	case <-l.snapshot.listed:
		l.enqueueAll(allNamespaces)
		running.Go(func() { l.runHeartbeat(ctx) })
		running.Go(func() { l.runTrigger(ctx) })
		running.Go(func() { l.recountAfterSteps(ctx) })
		for range l.options.Workers {
			running.Go(func() { l.runWorker(ctx) })
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	l.queue.ShutDown()
	running.Wait()
}

// allNamespaces matches all namespaces.
func allNamespaces(string) bool { return true }

// enqueueAll enqueues the existing protectors of some namespaces, in the order of their names.
func (l *leadership) enqueueAll(in func(namespace string) bool) {
	for _, name := range slices.Sorted(slices.Values(l.informer.GetStore().ListKeys())) {
		namespace, name, err := cache.SplitMetaNamespaceKey(name)
		if err == nil && in(namespace) {
			l.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// podsChanged enqueues a protector after wait, so that a burst of events becomes one write.
func (l *leadership) podsChanged(key types.NamespacedName, wait time.Duration) {
	l.recordEvent(key)
	l.queue.AddAfter(key, wait)
}

// hasNoBudget uses the protector that the watch has shown.
func (l *leadership) hasNoBudget(key types.NamespacedName) bool {
	found, _, _ := l.informer.GetStore().GetByKey(key.String())
	p, ok := found.(*v1alpha1.PodProtector)
	return ok && p.Status.DisruptionsAllowed == 0
}

// protectorChanged also waits, unless the pods must now be counted differently or the protector is being deleted.
func (l *leadership) protectorChanged(p *v1alpha1.PodProtector) {
	if !l.owns(p.Namespace) {
		return
	}
	l.recordEvent(keyOf(p))
	if l.mustCount(p) || p.DeletionTimestamp != nil {
		l.queue.Add(keyOf(p))
		return
	}
	l.queue.AddAfter(keyOf(p), aggregationRate(p))
}

func aggregationRate(p *v1alpha1.PodProtector) time.Duration {
	if millis := p.Spec.AdmissionHistory.AggregationRateMillis; millis != nil {
		return time.Duration(*millis) * time.Millisecond
	}
	return time.Second
}

func (l *leadership) runWorker(ctx context.Context) {
	for {
		key, shutdown := l.queue.Get()
		if shutdown || ctx.Err() != nil { // the next leadership handles the remaining keys
			return
		}
		l.processKey(ctx, key)
	}
}

func (l *leadership) processKey(ctx context.Context, key types.NamespacedName) {
	defer l.queue.Done(key)
	ctx, span := l.beginRound(ctx, key)
	defer span.End()
	err := l.reconcile(ctx, key)
	tracing.RecordError(span, err)
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() != nil:
	case errors.Is(err, errDeposed):
		l.stopDeposed(key.Namespace, err)
	default:
		l.metrics.writes.WithLabelValues("error").Inc()
		l.log.Error(err, "Failed to aggregate a protector", "protector", key)
		l.queue.AddRateLimited(key)
	}
}

func (l *leadership) deadlinesOf(key types.NamespacedName) *quota.Deadlines {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadlines[key] == nil {
		l.deadlines[key] = &quota.Deadlines{}
	}
	return l.deadlines[key]
}

func (l *leadership) forget(key types.NamespacedName) {
	l.snapshot.Uncover(key)
	l.workloadIndex.setResults(key, nil)
	l.workloadIndex.setTarget(key, nil)
	l.metrics.spread.forget(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.deadlines, key)
	delete(l.initialCounts, key)
	delete(l.cleared, key)
	delete(l.settleDelays, key)
	delete(l.nextAliveReads, key)
}
