package webhook

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/review"
	"github.com/breakwater-k8s/breakwater/webhook/server"
	"github.com/breakwater-k8s/breakwater/webhook/wake"
)

// Options are the options of a webhook.
type Options struct {
	// Cores are the core clusters by name; the cluster of the manager is one of them.
	Cores map[string]cluster.Cluster
	// RestoreDetectors detect that cores were restored from backups, by the names of the cores: the same ones as in their caches'
	// options.
	RestoreDetectors map[string]*clusters.RestoreDetector
	// Cells are the client configurations of the clusters whose removals are reviewed, by the name of their Cell.
	Cells map[string]*rest.Config
	// CellRegistries, by the names of Cores, are the registries of further cells and of the pods that each cell has; nil when
	// Cells lists all cells.
	CellRegistries map[string]*clusters.CellRegistry
	// Server is the server to start; SetupWithManager sets it up.
	Server *server.Server
	// Peers are the other replicas; nil when there are none, or when replicas must not hand over to each other.
	Peers *reserve.Peers
	// EnableRetrier wakes controllers whose removals were denied when there is budget again, and releases pods to the successors of their
	// deleted controllers.
	EnableRetrier bool
	// NodeGuard records admitted removals without a grace period in the cells, for node guards.
	NodeGuard bool
	// Metrics is the registry for the webhook's metrics.
	Metrics prometheus.Registerer
	// ProbeInterval is the interval at which the webhook probes each core cluster, for metrics and to deny at once while it does not answer; 0
	// disables it.
	ProbeInterval time.Duration
	// Tracer creates spans; nil creates none. The code that connects to the cores propagates its trace context to the
	// API servers.
	Tracer *tracing.Tracer
	// Now is the wall clock; nil means the clock of the machine.
	Now func() time.Time
	// SinceBoot is a clock that also counts while the machine is suspended; nil means that of the machine. Only simulations set it.
	SinceBoot func() time.Duration
	// BeforeFlush is called before each batch for a protector is flushed; nil flushes at once. Only simulations set it,
	// see package batch.
	BeforeFlush func(protector types.NamespacedName)
}

// SetupWithManager adds the webhook, and the core clusters other than the manager's own, to a manager. It returns what decides for
// options.Server, which other handlers of the server ask.
func SetupWithManager(mgr manager.Manager, options Options) (*review.Protection, error) {
	p, err := NewProtection(mgr, options)
	if err != nil {
		return nil, err
	}
	options.Server.SetUp(p, options.Metrics, options.Tracer, mgr.GetLogger())
	if err := mgr.AddReadyzCheck("reviews", options.Server.Ready); err != nil {
		return nil, err
	}
	return p, mgr.Add(options.Server)
}

// NewProtection creates the Protection, without a server. It reads its protectors after the manager has started.
func NewProtection(mgr manager.Manager, options Options) (*review.Protection, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	metrics, coreMetrics := review.NewMetrics(options.Metrics), reserve.NewMetrics(options.Metrics)
	cells := review.NewCells(options.Tracer)
	for name, config := range options.Cells {
		if err := cells.AddStatic(name, config); err != nil {
			return nil, err
		}
	}
	var retrier *wake.Retrier
	if options.EnableRetrier {
		retrier = wake.New(cells, metrics.Retries, mgr.GetLogger())
		if err := mgr.Add(retrier); err != nil {
			return nil, fmt.Errorf("add the retrier: %w", err)
		}
	}
	var cores []*reserve.Core
	for name := range options.Cores {
		core, err := addCore(mgr, options, reserve.Options{
			Name: name, Metrics: coreMetrics, OnChange: retrier.Trigger, OnDrop: metrics.DropProtector,
		})
		if err != nil {
			return nil, fmt.Errorf("core cluster %s: %w", name, err)
		}
		if core.Cells != nil {
			cells.AddRegistry(core.Cells)
		}
		cores = append(cores, core)
	}
	log := mgr.GetLogger()
	p := review.New(reserve.NewCores(log, cores...), cells, retrier, metrics, options.Tracer, log, options.Now)
	if options.NodeGuard {
		p.RecordRemovals(options.Server != nil && options.Server.Audit)
	}
	return p, nil
}

// addCore adds a core cluster to the manager, with its registry of Cells and a probe that tells and exports whether it answers and is ready. It
// completes the options of the core by those of the webhook.
func addCore(mgr manager.Manager, options Options, o reserve.Options) (c *reserve.Core, err error) {
	o.Source, o.RestoreDetector, o.Cells = options.Cores[o.Name], options.RestoreDetectors[o.Name], options.CellRegistries[o.Name]
	o.Peers, o.Tracer, o.Now, o.SinceBoot, o.BeforeFlush = options.Peers, options.Tracer, options.Now, options.SinceBoot, options.BeforeFlush
	o.Log = mgr.GetLogger()
	if o.Source != cluster.Cluster(mgr) {
		if err := mgr.Add(o.Source); err != nil {
			return nil, fmt.Errorf("add the cluster: %w", err)
		}
	}
	if options.ProbeInterval > 0 {
		if o.Probe, err = o.Metrics.NewProbe(o.Name, o.Source.GetConfig(), options.ProbeInterval); err != nil {
			return nil, fmt.Errorf("probe it: %w", err)
		}
		if err := mgr.Add(o.Probe); err != nil {
			return nil, fmt.Errorf("add its probe: %w", err)
		}
	}
	if o.Cells != nil {
		if err := mgr.Add(o.Cells); err != nil {
			return nil, fmt.Errorf("add its Cells: %w", err)
		}
	}
	c = reserve.Connect(o)
	return c, mgr.Add(c)
}
