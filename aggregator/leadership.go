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
	options        Options
	trimmedPods    corev1client.PodsGetter
	metadataClient metadata.Interface
	metrics        *metrics
	ownership      *ownership.Ownership
	// slots claims the slots of ownership, if shards share the cell; nil otherwise.
	slots      *slotBalancer
	snapshot   *snapshot.Snapshot
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
	exemptions *guard.Exemptions
	// IgnoredLabels finds workloads whose label has no effect; nil if that is not reported.
	ignoredLabels *guard.IgnoredLabels
	// published is what node guards read.
	published *guard.Publisher
	// cell is the Cell as it was last read.
	cell atomic.Pointer[v1alpha1.Cell]
	// answers are for them, too.
	answers *guard.Answers
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger
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
	report := &leaderReport{
		identity: a.options.Identity, epoch: epoch, start: state, coreClient: a.core.client, coreReader: a.core.reader,
		snapshot: l.snapshot, metrics: a.metrics, applyCell: l.applyCell, now: a.clocks.now, stop: stop, log: l.log,
	}
	l.heartbeat.write, l.heartbeat.isComplete = report.writeLeading, func() bool { return true }
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
	l.exemptions = exempt
	l.reconciler.exemptions = exempt
	if a.options.OfShares {
		return
	}
	l.ignoredLabels = &guard.IgnoredLabels{
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
		options: a.options, trimmedPods: a.cell.trimmedPods, metadataClient: a.cell.metadata, metrics: a.metrics, ownership: owned,
		snapshot: pods, queue: queue, enqueuer: enqueuer, rounds: enqueuer.rounds, entries: entries, deadlines: deadlines, initial: initial,
		heartbeat: heartbeat, stop: stop, log: log,
		trigger: &modes.UpdateTrigger{
			Options: a.options.Trigger, Cell: cell, Clientset: a.cell.clientset, EventSettlement: pods.EventSettlement, Now: a.clocks.now, Log: log,
		},
	}
	if namespace := a.options.NodeGuardNamespace; namespace != "" {
		a.publishForGuards(l, namespace, state)
	}
	l.reconciler = &reconciler{
		cell: cell, start: state, ownership: owned, protectors: a.core.protectors, snapshot: pods, entries: entries, deadlines: deadlines,
		initial: initial, reads: reads, heartbeat: heartbeat, transitions: &a.history.transitions,
		delays: delays, deferral: deferral, workloads: workloads,
		states: ownership.States{
			workloads, &a.metrics.spread.records, &deadlines.timers, &initial.counts, &delays.cleared, &delays.void, &reads.Next, &deferral.since,
		},
		pods: &podObserver{
			snapshot: pods, deadlines: deadlines, initial: initial, reads: reads, readPod: a.cell.live.ReadPod, clock: a.clocks.steady, monotonic: a.clocks.monotonic, log: log,
		},
		events: &protectorEvents{cell: cell, recorder: a.events},
		rounds: enqueuer.rounds, queue: queue, metrics: a.metrics, clock: a.clocks.steady, monotonic: a.clocks.monotonic, log: log,
		ofShares: a.options.OfShares,
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
	l.published = guard.NewPublisher(state.cell, l.entries.scope, core.ConfigMaps(namespace), a.guardVersions)
	l.published.Protectors, l.published.Newest, l.published.Writable = a.core.informer.GetStore(), a.core.protectors.Newest, l.ownership.WritableSlots
	l.published.Draining, l.published.Now, l.published.Log = l.entries.draining.Load, a.clocks.now, l.log
	l.answers = guard.NewAnswers(l.published, core.Nodes(), core)
	l.answers.Read = a.core.protectors.Read
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
	l.snapshot.EventSettlement.SetMode(cell.Spec.Settlement)
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
		running.Go(func() { l.published.Run(ctx) })
		running.Go(func() { l.reconciler.shares.Run(ctx) })
		running.Go(func() { l.answers.Run(ctx) })
		running.Go(func() { l.exemptions.Run(ctx) })
		running.Go(func() { l.ignoredLabels.Run(ctx) })
		running.Go(func() { l.enqueuer.recountAfterSteps(ctx) })
		for range l.options.Workers {
			running.Go(func() { l.runWorker(ctx) })
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	l.queue.ShutDown()
	l.exemptions.ShutDown()
	running.Wait()
}

// allNamespaces matches all namespaces.
func allNamespaces(string) bool { return true }

// isListed reports whether pods were listed, if there are any to count.
func (l *leadership) isListed() bool {
	if l.slots != nil {
		if all, _ := l.slots.owned.Slots.Claimed(); all.Empty() {
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
		l.ownership.StopDeposed(key.Namespace, err)
	default:
		l.metrics.writes.WithLabelValues("error").Inc()
		l.log.Error(err, "Failed to aggregate a protector", "protector", key)
		l.queue.AddRateLimited(key)
	}
}

// onRestore ends the leadership. The next one begins in the restored history.
func (a *Aggregator) onRestore() {
	if l := a.current.Load(); l != nil {
		l.stop(versions.ErrRestored)
	}
}
