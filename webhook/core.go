package webhook

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/batch"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// core is one core cluster. Its parts hold the states of its protectors, and reserve removals with them.
type core struct {
	name string
	// host is the address of its API server.
	host   string
	log    logr.Logger
	cache  cache.Informers
	events events.EventRecorder
	// cellRegistry is the registry of the core's Cells; nil when all cells are named by flags.
	cellRegistry *clusters.CellRegistry
	// onChange is called after each change of a protector.
	onChange func()
	// synced reports whether all protectors have been read once. Before that the webhook cannot decide anything for this
	// core.
	synced atomic.Bool

	// states holds what the watch has shown of the protectors.
	states *protectorStates
	// reserver makes reservations with the protectors, in batches that a batchWriter writes.
	reserver *reserver
	// pendingCharges are the pending charges: break-glass removals admitted while the core was unreachable.
	pendingCharges *pendingCharges
	// routePending moves pending charges of a namespace between the cores; see coreSet.routePendingCharges.
	routePending func(namespace string)
}

// newCore creates a core that writes protectors, and connects its parts.
func newCore(
	name string, protectors *clusters.Protectors, restoreDetector *clusters.RestoreDetector, metrics *metrics, log logr.Logger, now func() time.Time,
) *core {
	conflicts, distance, pending, spans := &conflictLog{now: time.Now}, &coreDistance{}, newPendingCharges(), &operationTracer{core: name}
	states := &protectorStates{
		core: name, protectors: protectors, restoreDetector: restoreDetector, conflicts: conflicts, refusals: metrics.refusals, log: log,
		coverage: newCoverageIndex(),
	}
	writer := &batchWriter{
		core: name, protectors: protectors, restoreDetector: restoreDetector, states: states, pendingCharges: pending,
		conflicts: conflicts, distance: distance, metrics: metrics, spans: spans, now: now,
	}
	return &core{
		name: name, log: log, states: states, pendingCharges: pending,
		reserver: &reserver{
			core: name, probe: coreProbe{core: name},
			batches: batch.New(writer.flush), conflicts: conflicts, distance: distance, metrics: metrics, spans: spans, log: log,
		},
	}
}

// connectCore creates a core from the options of the webhook.
func connectCore(name string, options Options, metrics *metrics, log logr.Logger, onChange func()) *core {
	source, restoreDetector := options.Cores[name], options.RestoreDetectors[name]
	if restoreDetector == nil {
		restoreDetector = &clusters.RestoreDetector{}
	}
	protectors := &clusters.Protectors{
		Cache: source.GetClient(), Live: source.GetAPIReader(), Writer: source.GetClient(), RestoreDetector: restoreDetector,
	}
	log = log.WithValues("core", name)
	c := newCore(name, protectors, restoreDetector, metrics, log, options.Now)
	c.host = source.GetConfig().Host
	c.cache, c.events = source.GetCache(), source.GetEventRecorder("breakwater-webhook")
	c.cellRegistry, c.onChange = options.CellRegistries[name], onChange
	c.reserver.spans.tracer = options.Tracer
	c.reserver.batches.Window, c.reserver.batches.BeforeStart = c.reserver.batchWindow, options.BeforeFlush
	if options.Peers != nil {
		c.reserver.forwarder = newForwarder(name, *options.Peers, options.Tracer)
	}
	restoreDetector.OnRestore(func() {
		log.Info("Detected restore of core cluster, refusing removals of its protectors until all cells are counted again")
	})
	metrics.registerWaiting(name, c.reserver.batches.Callers)
	metrics.registerLostProtectors(name, c.states.lostCount)
	metrics.registerPendingCharges(name, c.pendingCharges.count)
	metrics.registerTokenExpiry(name, source.GetConfig())
	return c
}

// readLive is protectorStates.readLive while the core answers; a silentCoreError otherwise.
func (c *core) readLive(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, released bool, err error) {
	err = c.reserver.probe.ask(ctx, func(ctx context.Context) (err error) {
		p, released, err = c.states.readLive(ctx, key)
		return err
	})
	return p, released, err
}

// hasPod reports whether a pod belongs to a cell, according to this core. If the core has no such Cell, or the webhook has
// not read it yet, every pod belongs to it. It is safer to charge a removal to a cell that does not count the pod, and
// to refuse it, than not to charge it at all.
func (c *core) hasPod(cell, namespace string, labels map[string]string) bool {
	if c.cellRegistry == nil {
		return true
	}
	member, ok := c.cellRegistry.Cell(cell)
	return !ok || member.Scope.Has(namespace, labels)
}
