package reserve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/batch"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Core is one core cluster. Its parts hold the states of its protectors, and reserve removals with them.
type Core struct {
	Name string
	// Host is the address of its API server.
	Host string
	// Events records events on its objects.
	Events events.EventRecorder
	// Cells is the registry of the core's Cells; nil when all cells are named by flags.
	Cells *clusters.CellRegistry
	// Synced reports whether all protectors have been read once. Before that the webhook cannot decide anything for this core.
	Synced atomic.Bool
	// States holds what the watch has shown of the protectors.
	States *States
	// Pending are the pending charges: break-glass removals admitted while the core was unreachable.
	Pending *PendingCharges

	log   logr.Logger
	cache cache.Informers
	// onChange is called after each change of a protector.
	onChange func()
	// reserver makes reservations with the protectors, in batches that a batchWriter writes.
	reserver *reserver
	// routePending moves pending charges of a namespace between the cores; see Cores.RoutePendingCharges.
	routePending func(namespace string)
}

// NewCore creates a core that writes protectors, and connects its parts. onDrop is called for each protector that was released.
func NewCore(
	name string, protectors *clusters.Protectors, restoreDetector *clusters.RestoreDetector, metrics *Metrics, log logr.Logger, now func() time.Time,
	onDrop func(core string, protector types.NamespacedName),
) *Core {
	conflicts, distance, pending, spans := &conflictLog{now: time.Now}, &coreDistance{}, newPendingCharges(), &operationTracer{core: name}
	states := &States{
		core: name, protectors: protectors, restoreDetector: restoreDetector, conflicts: conflicts, onDrop: onDrop, log: log,
		coverage: newCoverageIndex(), LostQueue: newLostQueue(),
	}
	escrows := newEscrows(distance.isFarForEscrow)
	writer := &batchWriter{
		core: name, protectors: protectors, restoreDetector: restoreDetector, states: states, pendingCharges: pending,
		conflicts: conflicts, distance: distance, metrics: metrics, spans: spans, now: now, escrows: escrows,
	}
	r := &reserver{
		core: name, probe: coreProbe{core: name}, batches: batch.New(writer.flush), conflicts: conflicts, distance: distance, escrows: escrows, states: states,
		metrics: metrics, spans: spans, log: log,
	}
	escrows.flush = r.flushEscrow
	return &Core{Name: name, log: log, States: states, Pending: pending, onChange: func() {}, reserver: r}
}

// Options are the options of a core.
type Options struct {
	Name string
	// Source is the core cluster.
	Source cluster.Cluster
	// RestoreDetector detects that the core was restored from a backup; nil detects nothing.
	RestoreDetector *clusters.RestoreDetector
	// Cells is the registry of the core's Cells; nil when all cells are named by flags.
	Cells *clusters.CellRegistry
	// Peers are the other replicas; nil when there are none.
	Peers *Peers
	// Probe knows whether the core answers; nil when nothing probes it.
	Probe   *clusters.Probe
	Metrics *Metrics
	Tracer  *tracing.Tracer
	Log     logr.Logger
	// Now is the wall clock.
	Now func() time.Time
	// SinceBoot is a clock that also counts while the machine is suspended; nil means that of the machine.
	SinceBoot func() time.Duration
	// BeforeFlush is called before each batch for a protector is flushed; nil flushes at once.
	BeforeFlush func(protector types.NamespacedName)
	// OnChange is called after each change of a protector, and OnDrop for each one that was released.
	OnChange func()
	OnDrop   func(core string, protector types.NamespacedName)
}

// Connect creates a core for a cluster.
func Connect(o Options) *Core {
	if o.RestoreDetector == nil {
		o.RestoreDetector = &clusters.RestoreDetector{}
	}
	protectors := &clusters.Protectors{
		Cache: o.Source.GetClient(), Live: o.Source.GetAPIReader(), Writer: o.Source.GetClient(), RestoreDetector: o.RestoreDetector,
	}
	log := o.Log.WithValues("core", o.Name)
	c := NewCore(o.Name, protectors, o.RestoreDetector, o.Metrics, log, o.Now, o.OnDrop)
	c.Host = o.Source.GetConfig().Host
	c.cache, c.Events = o.Source.GetCache(), o.Source.GetEventRecorder("breakwater-webhook")
	c.Cells, c.onChange = o.Cells, o.OnChange
	c.reserver.probe.probe = o.Probe
	c.Trace(o.Tracer)
	c.reserver.batches.Window = c.reserver.batchWindow
	c.BeforeFlush(o.BeforeFlush)
	if o.SinceBoot != nil {
		c.reserver.escrows.sinceBoot = o.SinceBoot
	}
	if o.Peers != nil {
		c.forwardTo(newForwarder(o.Name, *o.Peers, o.Tracer))
	}
	o.RestoreDetector.OnRestore(func() {
		log.Info("Detected restore of core cluster, denying removals of its protectors until all cells are counted again")
	})
	o.Metrics.RegisterCore(c, o.Source.GetConfig())
	return c
}

// forwardTo connects the other replicas.
func (c *Core) forwardTo(f *forwarder) {
	c.reserver.forwarder = f
	c.reserver.escrows.holder = NewToken() + "@" + f.peers.Self
	c.reserver.escrows.isOwner = func(protector types.NamespacedName) bool { return f.ownerOf(protector) == "" }
}

// Trace sets what creates the spans of its operations; nil creates none.
func (c *Core) Trace(tracer *tracing.Tracer) { c.reserver.spans.tracer = tracer }

// BeforeFlush sets what is called before each batch for a protector is flushed; nil flushes at once.
func (c *Core) BeforeFlush(before func(protector types.NamespacedName)) {
	c.reserver.batches.BeforeStart = before
}

// Waiting returns the number of removals that wait for a write.
func (c *Core) Waiting() int { return c.reserver.batches.Callers() }

// WaitForBatches waits until no batch is being written.
func (c *Core) WaitForBatches() { c.reserver.batches.Wait() }

// Ask makes a request to the API server of the core while it answers. It returns an error at once if it is known not to answer.
func (c *Core) Ask(ctx context.Context, request func(context.Context) error) error {
	return c.reserver.probe.ask(ctx, request)
}

// ReadLive reads a protector from the core. released reports that it no longer exists because a client has released it. It is an error if it no
// longer exists and was lost, or if the core is known not to answer.
func (c *Core) ReadLive(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, released bool, err error) {
	err = c.Ask(ctx, func(ctx context.Context) (err error) {
		p, released, err = c.States.readLive(ctx, key)
		return err
	})
	return p, released, err
}

// HasPod reports whether a pod belongs to a cell, according to this core. If the core has no such Cell, or the webhook has
// not read it yet, every pod belongs to it. It is safer to charge a removal to a cell that does not count the pod, and
// to deny it, than not to charge it at all.
func (c *Core) HasPod(cell, namespace string, labels map[string]string) bool {
	if c.Cells == nil {
		return true
	}
	member, ok := c.Cells.Cell(cell)
	return !ok || member.Scope.Has(namespace, labels)
}
