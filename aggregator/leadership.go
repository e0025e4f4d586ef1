package aggregator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// leadership is one leadership of a cell, and all its knowledge. It runs its parts, which end with it.
type leadership struct {
	options        Options
	trimmedPods    corev1client.PodsGetter
	metadataClient metadata.Interface
	metrics        *metrics
	ownership      ownership
	// slots claims the slots of ownership, if shards share the cell; nil otherwise.
	slots      *slotBalancer
	snapshot   *Snapshot
	queue      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	enqueuer   *enqueuer
	rounds     *roundTracer
	reconciler *reconciler
	entries    *cellEntries
	deadlines  *reservationDeadlines
	initial    *initialCounts
	heartbeat  *cellHeartbeat
	trigger    *modes.UpdateTrigger
	// exemptions determine which namespaces are exempt, and label the others; nil if that is not reported.
	exemptions *exemptions
	// ignoredLabels finds workloads whose label has no effect; nil if that is not reported.
	ignoredLabels *ignoredLabels
	// published is what node guards read.
	published *guardPublisher
	// cell is the Cell as it was last read.
	cell atomic.Pointer[v1alpha1.Cell]
	// answers are for them, too.
	answers *guardAnswers
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger
}

var errDeposed = errors.New("a later leader has written")

// lead runs one leadership, until ctx ends or the leadership's knowledge turns out to be void.
func (a *Aggregator) lead(ctx context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	mark := a.restoreDetector.Mark()
	state, err := a.takeover.take(ctx)
	if err != nil {
		a.log.Error(err, "Failed to take the leadership of the cell")
		return
	}
	epoch := state.cell.Status.Aggregator.Epoch
	owned := &wholeCell{epoch: epoch, identity: a.options.Identity, beganAt: state.beganAt, stop: stop}
	l := a.newLeadership(ctx, state, owned, a.log.WithValues("epoch", epoch), stop)
	report := &leaderReport{
		identity: owned.identity, epoch: epoch, start: state, coreClient: a.coreClient, coreReader: a.coreReader,
		snapshot: l.snapshot, metrics: a.metrics, applyCell: l.applyCell, now: a.now, stop: stop, log: l.log,
	}
	l.heartbeat.write, l.heartbeat.isComplete = report.writeLeading, func() bool { return true }
	a.metrics.leading.Set(1)
	a.metrics.epoch.Set(float64(epoch))
	a.current.Store(l)
	if !a.restoreDetector.IsSameIncarnation(mark) {
		stop(errRestored) // the restore was reported before this leadership was stored
	}
	l.log.Info("Leading")
	l.run(ctx)
	a.current.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.spread.records.clear()
	l.log.Info("Stopped leading", "reason", endReason(ctx))
	report.writeReleased(context.WithoutCancel(ctx), endReason(ctx))
}

// newLeadership creates a leadership without any knowledge. Its heartbeat must be told what to write before it runs.
func (a *Aggregator) newLeadership(ctx context.Context, state startState, owned ownership, log logr.Logger, stop context.CancelCauseFunc) *leadership {
	pods, err := scope.Of(&state.cell.Spec)
	if err != nil {
		a.log.Error(err, "Failed to parse the scope of the Cell; counting no pods")
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second))
	rounds := &roundTracer{cell: a.options.Cell, tracer: a.options.Tracer}
	enqueuer := &enqueuer{
		cell: a.options.Cell, queue: queue, informer: a.informer, ownership: owned, rounds: rounds, clock: a.clock, log: log,
	}
	snapshot := newSnapshot(enqueuer.podsChanged, func(err error) { stop(err) }, a.clock.now, a.monotonic)
	snapshot.Configure(pods, enqueuer.hasNoBudget)
	l := a.assemble(state, owned, snapshot, enqueuer, log, stop)
	l.reconciler.workloads.watch(ctx, a.metadataClient, a.dynamicClient, a.mapper)
	if a.options.ReportGaps {
		owns := func(namespace string) bool { return pods.HasNamespace(namespace) && owned.owns(namespace) }
		a.reportGaps(l, state.coreUID, owns)
	}
	l.applyCell(state.cell)
	return l
}

// reportGaps makes a leadership label namespaces, and report what looks protected and is not, in the namespaces that it owns. The protectors of
// the core report it for their shares.
func (a *Aggregator) reportGaps(l *leadership, coreUID string, owns func(namespace string) bool) {
	enqueueOwned := func(in func(string) bool) {
		l.enqueuer.enqueueAll(func(n string) bool { return in(n) && l.ownership.owns(n) })
	}
	exempt, err := newExemptions(a.options.Cell, a.options.OfShares, a.cellClientset, a.metadataClient, enqueueOwned)
	if err != nil {
		l.log.Error(err, "Failed to watch webhook configurations; not determining which namespaces are exempt")
		return
	}
	core := labeledCore{uid: coreUID, protectors: a.informer.GetIndexer(), live: a.coreReader, countsFor: l.reconciler.countsFor}
	if a.options.Shares != nil {
		core.shares = a.options.Shares.GetAPIReader()
	}
	exempt.labelNamespaces(core, a.metadataClient, owns, a.options.LabelRetention, a.monotonic, l.log)
	l.exemptions = exempt
	l.reconciler.exemptions = exempt
	if a.options.OfShares {
		return
	}
	l.ignoredLabels = &ignoredLabels{
		objects: a.metadataClient, protectors: a.informer.GetStore(), recorder: a.cellEvents.NewRecorder(clusters.Scheme(), "breakwater-aggregator"),
		has: owns, log: l.log,
	}
}

// assemble creates the parts of a leadership.
func (a *Aggregator) assemble(
	state startState, owned ownership, snapshot *Snapshot, enqueuer *enqueuer, log logr.Logger, stop context.CancelCauseFunc,
) *leadership {
	cell, queue := a.options.Cell, enqueuer.queue
	deadlines := &reservationDeadlines{}
	reads := &aliveReads{snapshot: snapshot, readLive: a.live.listPods, monotonic: a.monotonic}
	initial := &initialCounts{cell: cell, ownership: owned, informer: a.informer, snapshot: snapshot, reads: reads}
	entries := &cellEntries{
		start: state, scope: snapshot.Scope(), readCell: a.takeover.readCell, endedProtectors: &a.history.ended,
		enqueueAll: enqueuer.enqueueAll, owns: owned.owns, monotonic: a.monotonic, stop: stop, log: log,
	}
	heartbeat := &cellHeartbeat{
		interval: a.options.Heartbeat, snapshot: snapshot, liveVersion: a.live.version,
		enqueueOwned: func() { enqueuer.enqueueAll(owned.owns) }, stop: stop, log: log,
	}
	delays := &countDelays{
		restored: state.restored, ownership: owned, deadlines: deadlines, initial: initial, endedProtectors: &a.history.ended, monotonic: a.monotonic,
	}
	deferral, workloads := newDeferral(cell, a.monotonic), newWorkloadResolver(queue, a.now, log)
	l := &leadership{
		options: a.options, trimmedPods: a.trimmedPods, metadataClient: a.metadataClient, metrics: a.metrics, ownership: owned,
		snapshot: snapshot, queue: queue, enqueuer: enqueuer, rounds: enqueuer.rounds, entries: entries, deadlines: deadlines, initial: initial,
		heartbeat: heartbeat, stop: stop, log: log,
		trigger: &modes.UpdateTrigger{
			Options: a.options.Trigger, Cell: cell, Clientset: a.cellClientset, EventSettlement: snapshot.eventSettlement, Now: a.now, Log: log,
		},
	}
	if namespace := a.options.NodeGuardNamespace; namespace != "" {
		a.publishForGuards(l, namespace, state)
	}
	l.reconciler = &reconciler{
		cell: cell, start: state, ownership: owned, protectors: a.protectors, snapshot: snapshot, entries: entries, deadlines: deadlines,
		initial: initial, reads: reads, heartbeat: heartbeat, transitions: &a.history.transitions,
		delays: delays, deferral: deferral, workloads: workloads,
		states: protectorStates{
			workloads, &a.metrics.spread.records, &deadlines.timers, &initial.counts, &delays.cleared, &delays.void, &reads.next, &deferral.since,
		},
		pods: &podObserver{
			snapshot: snapshot, deadlines: deadlines, initial: initial, reads: reads, readPod: a.live.readPod, clock: a.clock, monotonic: a.monotonic, log: log,
		},
		events: &protectorEvents{cell: cell, recorder: a.events},
		rounds: enqueuer.rounds, queue: queue, metrics: a.metrics, clock: a.clock, monotonic: a.monotonic, log: log,
		ofShares: a.options.OfShares,
	}
	if shares := a.options.Shares; shares != nil {
		l.reconciler.shares = &shareKeeper{
			cell: cell, shares: shares.GetClient(), live: shares.GetAPIReader(), core: a.coreReader,
			version: state.version, restored: state.restored, coreUID: state.coreUID, current: l.cell.Load, draining: entries.draining.Load,
			owns: owned.owns, queue: queue, log: log,
		}
	}
	return l
}

// publishForGuards makes a leadership publish for node guards, and answer them.
func (a *Aggregator) publishForGuards(l *leadership, namespace string, state startState) {
	core := a.cellClientset.CoreV1()
	l.published = newGuardPublisher(state.cell, l.entries.scope, core.ConfigMaps(namespace), a.guardVersions)
	l.published.protectors, l.published.newest, l.published.writable = a.informer.GetStore(), a.protectors.Newest, l.ownership.writableSlots
	l.published.draining, l.published.now, l.published.log = l.entries.draining.Load, a.now, l.log
	l.answers = newGuardAnswers(l.published, core.Nodes(), core)
	l.answers.read = a.protectors.Read
}

func endReason(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "stopped, or lost the lease"
}

// applyCell applies the settings of the Cell.
func (l *leadership) applyCell(cell *v1alpha1.Cell) {
	l.cell.Store(cell)
	l.deadlines.admission.Store(int64(cell.Spec.AdmissionDeadlineOrDefault()))
	l.snapshot.eventSettlement.SetMode(cell.Spec.Settlement)
	l.trigger.SetSelector(cell.Spec.PodSelector)
	l.heartbeat.mustProbe.Store(cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount)
	if cell.DeletionTimestamp != nil {
		l.entries.startDraining()
	}
}

func (l *leadership) run(ctx context.Context) {
	l.initial.expect(allNamespaces)
	var running sync.WaitGroup
	running.Go(func() { l.snapshot.Stream(ctx, l.trimmedPods, l.log) })
	running.Go(func() { l.snapshot.WatchNodes(ctx, l.metadataClient, l.log) })
	select {
	case <-l.snapshot.Listed():
		l.enqueuer.enqueueAll(allNamespaces)
		running.Go(func() { l.heartbeat.run(ctx) })
		running.Go(func() { l.trigger.Run(ctx) })
		running.Go(func() { l.published.run(ctx) })
		running.Go(func() { l.reconciler.shares.run(ctx) })
		running.Go(func() { l.answers.run(ctx) })
		running.Go(func() { l.exemptions.run(ctx) })
		running.Go(func() { l.ignoredLabels.run(ctx) })
		running.Go(func() { l.enqueuer.recountAfterSteps(ctx) })
		for range l.options.Workers {
			running.Go(func() { l.runWorker(ctx) })
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	l.queue.ShutDown()
	l.exemptions.shutDown()
	running.Wait()
}

// allNamespaces matches all namespaces.
func allNamespaces(string) bool { return true }

// isListed reports whether pods were listed, if there are any to count.
func (l *leadership) isListed() bool {
	if l.slots != nil {
		if all, _ := l.slots.owned.slots.claimed(); all.Empty() {
			return true
		}
	}
	select {
	case <-l.snapshot.Listed():
		return true
	default:
		return false
	}
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
	ctx, span := l.rounds.beginRound(ctx, key)
	defer span.End()
	err := l.reconciler.reconcile(ctx, key)
	tracing.RecordError(span, err)
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() != nil:
	case errors.Is(err, errDeposed):
		l.ownership.stopDeposed(key.Namespace, err)
	default:
		l.metrics.writes.WithLabelValues("error").Inc()
		l.log.Error(err, "Failed to aggregate a protector", "protector", key)
		l.queue.AddRateLimited(key)
	}
}

// onRestore ends the leadership. The next one begins in the restored history.
func (a *Aggregator) onRestore() {
	if l := a.current.Load(); l != nil {
		l.stop(errRestored)
	}
}
