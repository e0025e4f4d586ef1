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

// term is one leadership of a cell, and all its knowledge.
type term struct {
	*Aggregator
	epoch int64
	// tenure is the slots that it has, if shards share the cell; nil is all of them, with the epoch of the term.
	tenure  *tenure
	tenancy *Tenancy
	// heard is the highest epoch that was found above one of its own.
	heard atomic.Int64
	// poke requests a check of which slots the shards have, and relist another list; whole reports that a list was received.
	poke, relist chan struct{}
	whole        atomic.Bool
	leadership
	// began is when the term began, on the monotonic clock.
	began    time.Time
	snapshot *Snapshot
	// readLive asks the cell's API server for the pods of a namespace that a selector matches.
	readLive func(ctx context.Context, namespace, selector string) (liveRead, error)
	// readPod asks it for one pod; nil if there is none of that name.
	readPod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// readCell reads the Cell, and the current version of the core, from the core's API server.
	readCell func(ctx context.Context) (*v1alpha1.Cell, uint64, error)
	// workloads and followed determine how many pods are expected, for floors that are computed from that.
	workloads *workloads
	followed  *followed
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	news      news
	log       logr.Logger
	// end ends the term, for a reason.
	end context.CancelCauseFunc
	// admissionDeadline is the Cell's, in nanoseconds, as of the last heartbeat.
	admissionDeadline atomic.Int64

	// opened is when the Cell was last read and could have entries, on the monotonic clock in nanoseconds since began. It starts at the
	// time when the epoch was raised.
	opened atomic.Int64
	// draining reports that the Cell is being deleted.
	draining atomic.Bool
	// triggerLabels are the labels of the update trigger.
	triggerLabels atomic.Pointer[map[string]string]
	// vouches reports that a heartbeat must confirm that the cell answers, unheard that the cell did not answer last, and stale that a
	// count was left as stale because of that.
	vouches, unheard, stale atomic.Bool

	mu        sync.Mutex
	deadlines map[types.NamespacedName]*quota.Deadlines
	// firsts has the protectors that are counted for the first time, until the snapshot is enough to do so.
	firsts map[types.NamespacedName]*first
	// cleared has the protectors whose counts were cleared.
	cleared map[types.NamespacedName]clearing
	// quiets has the protectors whose counts are void.
	quiets map[types.NamespacedName]quiet
	// aliveReads is when the cell may be asked again which pods of a protector are alive, on the monotonic clock.
	aliveReads map[types.NamespacedName]time.Time
}

var errDeposed = errors.New("a later leader has written")

// lead runs one term, until ctx ends or the term's knowledge turns out to be void.
func (a *Aggregator) lead(ctx context.Context) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	mark := a.past.Mark()
	l, err := a.raiseEpoch(ctx)
	if err != nil {
		a.log.Error(err, "Not leading")
		return
	}
	cell := l.cell
	t := a.newTerm(ctx, l, end)
	t.epoch, t.log = cell.Status.Aggregator.Epoch, a.log.WithValues("epoch", cell.Status.Aggregator.Epoch)
	a.metrics.leading.Set(1)
	a.metrics.epoch.Set(float64(t.epoch))
	a.term.Store(t)
	if !a.past.IsSince(mark) {
		end(errRestored) // the restore was reported before this term was stored
	}
	t.log.Info("Leading")
	t.run(ctx)
	a.term.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.spread.clear()
	t.log.Info("No longer leading", "reason", reasonOf(ctx))
	t.farewell(context.WithoutCancel(ctx), reasonOf(ctx))
}

// newTerm creates a term without any knowledge.
func (a *Aggregator) newTerm(ctx context.Context, l leadership, end context.CancelCauseFunc) *term {
	pods, err := scope.Of(&l.cell.Spec)
	if err != nil {
		a.log.Error(err, "It is not known which pods the cell has, so none are counted")
	}
	t := &term{
		Aggregator: a,
		leadership: l,
		began:      a.monotonic(),
		readLive:   a.readLive,
		readPod:    a.readPod,
		readCell:   a.readCell,
		end:        end,
		log:        a.log,
		deadlines:  map[types.NamespacedName]*quota.Deadlines{},
		firsts:     map[types.NamespacedName]*first{},
		cleared:    map[types.NamespacedName]clearing{},
		quiets:     map[types.NamespacedName]quiet{},
		aliveReads: map[types.NamespacedName]time.Time{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second)),
	}
	t.followWorkloads(ctx)
	t.snapshot = newSnapshot(t.podsChanged, func(err error) { end(err) }, t.clock.now, t.monotonic)
	t.snapshot.scope, t.snapshot.isSpent = pods, t.isSpent
	t.heed(l.cell)
	return t
}

func reasonOf(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "stopped, or lost the lease"
}

func (t *term) run(ctx context.Context) {
	t.expectFirsts(everywhere)
	var running sync.WaitGroup
	running.Go(func() { newStream(t.pods, t.snapshot, t.log).RunWithContext(ctx) })
	running.Go(func() { t.watchNodes(ctx) })
	select {
	case <-t.snapshot.listed:
		t.enqueueAll(everywhere)
		running.Go(func() { t.report(ctx) })
		running.Go(func() { t.trigger(ctx) })
		running.Go(func() { t.recountAfterSteps(ctx) })
		for range t.options.Workers {
			running.Go(func() { t.work(ctx) })
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	t.queue.ShutDown()
	running.Wait()
}

// everywhere matches all namespaces.
func everywhere(string) bool { return true }

// enqueueAll enqueues the existing protectors of some namespaces, in the order of their names.
func (t *term) enqueueAll(in func(namespace string) bool) {
	for _, name := range slices.Sorted(slices.Values(t.informer.GetStore().ListKeys())) {
		namespace, name, err := cache.SplitMetaNamespaceKey(name)
		if err == nil && in(namespace) {
			t.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// podsChanged enqueues a protector after wait, so that a burst of events becomes one write.
func (t *term) podsChanged(key types.NamespacedName, wait time.Duration) {
	t.hear(key)
	t.queue.AddAfter(key, wait)
}

// isSpent uses the protector that the watch has shown.
func (t *term) isSpent(key types.NamespacedName) bool {
	found, _, _ := t.informer.GetStore().GetByKey(key.String())
	p, ok := found.(*v1alpha1.PodProtector)
	return ok && p.Status.DisruptionsAllowed == 0
}

// protectorChanged also waits, unless the pods must now be counted differently or the protector is being deleted.
func (t *term) protectorChanged(p *v1alpha1.PodProtector) {
	if !t.has(p.Namespace) {
		return
	}
	t.hear(keyOf(p))
	if t.mustCount(p) || p.DeletionTimestamp != nil {
		t.queue.Add(keyOf(p))
		return
	}
	t.queue.AddAfter(keyOf(p), aggregationRate(p))
}

func aggregationRate(p *v1alpha1.PodProtector) time.Duration {
	if millis := p.Spec.AdmissionHistory.AggregationRateMillis; millis != nil {
		return time.Duration(*millis) * time.Millisecond
	}
	return time.Second
}

func (t *term) work(ctx context.Context) {
	for {
		key, shutdown := t.queue.Get()
		if shutdown || ctx.Err() != nil { // the next term handles the remaining keys
			return
		}
		t.workOn(ctx, key)
	}
}

func (t *term) workOn(ctx context.Context, key types.NamespacedName) {
	defer t.queue.Done(key)
	ctx, span := t.beginRound(ctx, key)
	defer span.End()
	err := t.reconcile(ctx, key)
	tracing.Fail(span, err)
	switch {
	case err == nil:
		t.queue.Forget(key)
	case ctx.Err() != nil:
	case errors.Is(err, errDeposed):
		t.depose(key.Namespace, err)
	default:
		t.metrics.writes.WithLabelValues("error").Inc()
		t.log.Error(err, "Not aggregated", "protector", key)
		t.queue.AddRateLimited(key)
	}
}

func (t *term) deadlinesOf(key types.NamespacedName) *quota.Deadlines {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deadlines[key] == nil {
		t.deadlines[key] = &quota.Deadlines{}
	}
	return t.deadlines[key]
}

func (t *term) forget(key types.NamespacedName) {
	t.snapshot.Uncover(key)
	t.followed.set(key, nil)
	t.followed.follow(key, nil)
	t.metrics.spread.forget(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.deadlines, key)
	delete(t.firsts, key)
	delete(t.cleared, key)
	delete(t.quiets, key)
	delete(t.aliveReads, key)
}
