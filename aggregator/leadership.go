package aggregator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/aggregator/guard"
	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/shares"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/aggregator/workloads"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// leadership is one leadership of a cell, and all its knowledge. It runs its parts, which end with it.
type leadership struct {
	// aggregator has what outlives the leadership.
	aggregator *Aggregator
	start      startState
	ownership  *ownership.Ownership
	// slots claims the slots of ownership, if shards share the cell; nil otherwise.
	slots      *slotBalancer
	snapshot   *snapshot.Snapshot
	enqueuer   *enqueuer
	reconciler *reconciler
	trigger    *modes.UpdateTrigger
	guards     guards
	// cell is the Cell as it was last read.
	cell atomic.Pointer[v1alpha1.Cell]
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger
}

// guards are the parts that publish and report what is guarded; nil if that is not published, or not reported.
type guards struct {
	// exemptions determine which namespaces are exempt, and label the others. ignoredLabels finds workloads whose label has no effect.
	exemptions    *guard.Exemptions
	ignoredLabels *guard.IgnoredLabels
	// published is what node guards read, and answers answers them.
	published *guard.Publisher
	answers   *guard.Answers
}

var errDeposed = errors.New("a later leader has written")

// lead runs one leadership, until ctx ends or the leadership's knowledge turns out to be void.
func (a *Aggregator) lead(ctx context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	mark := a.core.restores.Mark()
	state, err := a.takeover.take(ctx)
	if err != nil {
		a.log.Error(err, "Failed to take the leadership of the cell")
		return
	}
	epoch := state.cell.Status.Aggregator.Epoch
	owned := ownership.OfLeader(a.options.Identity, epoch, state.beganAt, stop)
	l := a.newLeadership(ctx, state, owned, a.log.WithValues("epoch", epoch), stop)
	report := &leaderReport{l: l, epoch: epoch}
	l.reconciler.heartbeat.write, l.reconciler.heartbeat.isComplete = report.writeLeading, func() bool { return true }
	a.metrics.leading.Set(1)
	a.metrics.epoch.Set(float64(epoch))
	a.current.Store(l)
	if !a.core.restores.IsSameIncarnation(mark) {
		stop(versions.ErrRestored) // the restore was reported before this leadership was stored
	}
	l.log.Info("Leading")
	l.run(ctx)
	a.current.Store(nil)
	a.metrics.leading.Set(0)
	a.metrics.spread.records.Clear()
	l.log.Info("Stopped leading", "reason", endReason(ctx))
	report.writeReleased(context.WithoutCancel(ctx), endReason(ctx))
}

// newLeadership creates a leadership without any knowledge. Its heartbeat must be told what to write before it runs.
func (a *Aggregator) newLeadership(
	ctx context.Context, state startState, owned *ownership.Ownership, log logr.Logger, stop context.CancelCauseFunc,
) *leadership {
	inCell, err := scope.Of(&state.cell.Spec)
	if err != nil {
		a.log.Error(err, "Failed to parse the scope of the Cell; counting no pods")
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second))
	rounds := &roundTracer{cell: a.options.Cell, tracer: a.options.Tracer}
	enqueuer := &enqueuer{
		cell: a.options.Cell, queue: queue, informer: a.core.informer, ownership: owned, rounds: rounds, clock: a.clocks.steady, log: log,
	}
	pods := snapshot.New(enqueuer.podsChanged, func(err error) { stop(err) }, a.clocks.steady.now, a.clocks.monotonic)
	pods.Configure(inCell, enqueuer.hasNoBudget)
	l := a.assemble(state, owned, pods, enqueuer, log, stop)
	l.reconciler.workloads.Watch(ctx, a.cell.metadata, a.cell.dynamic, a.cell.mapper)
	if a.options.ReportGaps {
		owns := func(namespace string) bool { return inCell.HasNamespace(namespace) && owned.Owns(namespace) }
		a.reportGaps(l, state.coreUID, owns)
	}
	l.applyCell(state.cell)
	return l
}

// reportGaps makes a leadership label namespaces, and report what looks protected and is not, in the namespaces that it owns. The protectors of
// the core report it for their shares.
func (a *Aggregator) reportGaps(l *leadership, coreUID string, owns func(namespace string) bool) {
	enqueueOwned := func(in func(string) bool) {
		l.enqueuer.enqueueAll(func(n string) bool { return in(n) && l.ownership.Owns(n) })
	}
	exempt, err := guard.NewExemptions(a.options.Cell, a.options.OfShares, a.cell.clientset, a.cell.metadata, enqueueOwned)
	if err != nil {
		l.log.Error(err, "Failed to watch webhook configurations; not determining which namespaces are exempt")
		return
	}
	core := guard.Core{UID: coreUID, Protectors: a.core.informer.GetIndexer(), Live: a.core.reader, CountsFor: l.reconciler.countsFor}
	if a.options.Shares != nil {
		core.Shares = a.options.Shares.GetAPIReader()
	}
	exempt.LabelNamespaces(core, a.cell.metadata, owns, a.options.LabelRetention, a.clocks.monotonic, l.log)
	l.guards.exemptions, l.reconciler.exemptions = exempt, exempt
	if a.options.OfShares {
		return
	}
	l.guards.ignoredLabels = &guard.IgnoredLabels{
		Objects: a.cell.metadata, Protectors: a.core.informer.GetStore(), Recorder: a.cell.events.NewRecorder(clusters.Scheme(), "breakwater-aggregator"),
		Has: owns, Log: l.log,
	}
}

// assemble creates the parts of a leadership.
func (a *Aggregator) assemble(
	state startState, owned *ownership.Ownership, pods *snapshot.Snapshot, enqueuer *enqueuer, log logr.Logger, stop context.CancelCauseFunc,
) *leadership {
	cell, queue := a.options.Cell, enqueuer.queue
	deadlines := &reservationDeadlines{}
	reads := &snapshot.AliveReads{Snapshot: pods, ReadLive: a.cell.live.ListPods, Monotonic: a.clocks.monotonic}
	initial := &initialCounts{cell: cell, ownership: owned, informer: a.core.informer, snapshot: pods, reads: reads}
	entries := &cellEntries{
		start: state, scope: pods.Scope(), readCell: a.takeover.readCell, endedProtectors: &a.history.ended,
		enqueueAll: enqueuer.enqueueAll, owns: owned.Owns, monotonic: a.clocks.monotonic, stop: stop, log: log,
	}
	heartbeat := &cellHeartbeat{
		interval: a.options.Heartbeat, snapshot: pods, liveVersion: a.cell.live.Version,
		enqueueOwned: func() { enqueuer.enqueueAll(owned.Owns) }, stop: stop, log: log,
	}
	delays := &countDelays{
		restored: state.restored, ownership: owned, deadlines: deadlines, initial: initial, endedProtectors: &a.history.ended, monotonic: a.clocks.monotonic,
	}
	deferral, workloads := newDeferral(cell, a.clocks.monotonic), workloads.NewResolver(queue, a.clocks.now, log)
	l := &leadership{
		aggregator: a, start: state, ownership: owned, snapshot: pods, enqueuer: enqueuer, stop: stop, log: log,
		trigger: &modes.UpdateTrigger{
			Options: a.options.Trigger, Cell: cell, Clientset: a.cell.clientset, EventSettlement: pods.EventSettlement, Now: a.clocks.now, Log: log,
		},
	}
	l.reconciler = &reconciler{
		cell: cell, start: state, entries: entries, heartbeat: heartbeat, transitions: &a.history.transitions, delays: delays, workloads: workloads,
		enqueuer: enqueuer, ofShares: a.options.OfShares,
		states: ownership.States{
			workloads, &a.metrics.spread.records, &deadlines.timers, &initial.counts, &delays.cleared, &delays.void, &reads.Next, &deferral.since,
		},
		pods: &podObserver{
			snapshot: pods, deadlines: deadlines, initial: initial, reads: reads, readPod: a.cell.live.ReadPod,
			clock: a.clocks.steady, monotonic: a.clocks.monotonic, log: log,
		},
		writes: statusWrites{protectors: a.core.protectors, deferral: deferral, events: &protectorEvents{cell: cell, recorder: a.events}, metrics: a.metrics},
	}
	if namespace := a.options.NodeGuardNamespace; namespace != "" {
		a.publishForGuards(l, namespace, state)
	}
	if workers := a.options.Shares; workers != nil {
		l.reconciler.shares = &shares.Keeper{
			Cell: cell, Shares: workers.GetClient(), Live: workers.GetAPIReader(), Core: a.core.reader,
			Version: state.version, Restored: state.restored, CoreUID: state.coreUID, Current: l.cell.Load, Draining: entries.draining.Load,
			Owns: owned.Owns, Queue: queue, Log: log,
		}
	}
	return l
}

// publishForGuards makes a leadership publish for node guards, and answer them.
func (a *Aggregator) publishForGuards(l *leadership, namespace string, state startState) {
	core := a.cell.clientset.CoreV1()
	l.guards.published = guard.NewPublisher(state.cell, l.reconciler.entries.scope, core.ConfigMaps(namespace), a.guardVersions)
	l.guards.published.Protectors, l.guards.published.Newest = a.core.informer.GetStore(), a.core.protectors.Newest
	l.guards.published.Writable = l.ownership.WritableSlots
	l.guards.published.Draining, l.guards.published.Now, l.guards.published.Log = l.reconciler.entries.draining.Load, a.clocks.now, l.log
	l.guards.answers = guard.NewAnswers(l.guards.published, core.Nodes(), core)
	l.guards.answers.Read = a.core.protectors.Read
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
	l.reconciler.pods.deadlines.admission.Store(int64(cell.Spec.AdmissionDeadlineOrDefault()))
	l.snapshot.EventSettlement.SetMode(cell.Spec.Settlement)
	l.trigger.SetSelector(cell.Spec.PodSelector)
	l.reconciler.heartbeat.mustProbe.Store(cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount)
	if cell.DeletionTimestamp != nil {
		l.reconciler.entries.startDraining()
	}
}

func (l *leadership) run(ctx context.Context) {
	l.reconciler.pods.initial.expect(allNamespaces)
	var running sync.WaitGroup
	running.Go(func() { l.snapshot.Stream(ctx, l.aggregator.cell.trimmedPods, l.log) })
	running.Go(func() { l.snapshot.WatchNodes(ctx, l.aggregator.cell.metadata, l.log) })
	select {
	case <-l.snapshot.Listed():
		l.enqueuer.enqueueAll(allNamespaces)
		running.Go(func() { l.reconciler.heartbeat.run(ctx) })
		l.startParts(ctx, &running)
		<-ctx.Done()
	case <-ctx.Done():
	}
	l.enqueuer.queue.ShutDown()
	l.guards.exemptions.ShutDown()
	running.Wait()
}

// startParts starts what a leader and a shard have in common, until ctx ends.
func (l *leadership) startParts(ctx context.Context, running *sync.WaitGroup) {
	for _, run := range []func(context.Context){
		l.trigger.Run, l.enqueuer.recountAfterSteps, l.reconciler.shares.Run,
		l.guards.published.Run, l.guards.answers.Run, l.guards.exemptions.Run, l.guards.ignoredLabels.Run,
	} {
		running.Go(func() { run(ctx) })
	}
	for range l.aggregator.options.Workers {
		running.Go(func() { l.runWorker(ctx) })
	}
}

// allNamespaces matches all namespaces.
func allNamespaces(string) bool { return true }

// isListed reports whether pods were listed, if there are any to count.
func (l *leadership) isListed() bool {
	if l.slots != nil {
		if all, _ := l.ownership.Slots.Claimed(); all.Empty() {
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
		key, shutdown := l.enqueuer.queue.Get()
		if shutdown || ctx.Err() != nil { // the next leadership handles the remaining keys
			return
		}
		l.processKey(ctx, key)
	}
}

func (l *leadership) processKey(ctx context.Context, key types.NamespacedName) {
	defer l.enqueuer.queue.Done(key)
	ctx, span := l.enqueuer.rounds.beginRound(ctx, key)
	defer span.End()
	err := l.reconciler.reconcile(ctx, key)
	tracing.RecordError(span, err)
	switch {
	case err == nil:
		l.enqueuer.queue.Forget(key)
	case ctx.Err() != nil:
	case errors.Is(err, errDeposed):
		l.ownership.StopDeposed(key.Namespace, err)
	default:
		l.aggregator.metrics.writes.WithLabelValues("error").Inc()
		l.log.Error(err, "Failed to aggregate a protector", "protector", key)
		l.enqueuer.queue.AddRateLimited(key)
	}
}

// onRestore ends the leadership. The next one begins in the restored history.
func (a *Aggregator) onRestore() {
	if l := a.current.Load(); l != nil {
		l.stop(versions.ErrRestored)
	}
}
