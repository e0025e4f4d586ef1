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
	// Server is the server to start; SetupWithManager sets its Protection.
	Server *Server
	// Peers are the other replicas; nil when there are none, or when replicas must not hand over to each other.
	Peers *Peers
	// EnableRetrier wakes controllers whose removals were refused when there is budget again, and releases pods to the successors of their
	// deleted controllers.
	EnableRetrier bool
	// NodeGuard records admitted removals without a grace period in the cells, for node guards.
	NodeGuard bool
	// Metrics is the registry for the webhook's metrics.
	Metrics prometheus.Registerer
	// ProbeInterval is the interval at which the webhook probes each core cluster, for metrics and to refuse at once while it does not answer; 0
	// disables it.
	ProbeInterval time.Duration
	// Tracer creates spans; nil creates none. The code that connects to the cores propagates its trace context to the
	// API servers.
	Tracer *tracing.Tracer
	// Now is the wall clock; nil means the clock of the machine.
	Now func() time.Time
	// BeforeFlush is called before each batch for a protector is flushed; nil flushes at once. Only simulations set it,
	// see package batch.
	BeforeFlush func(protector types.NamespacedName)
}

// SetupWithManager adds the webhook, and the core clusters other than the manager's own, to a manager.
func SetupWithManager(mgr manager.Manager, options Options) error {
	p, err := NewProtection(mgr, options)
	if err != nil {
		return err
	}
	server := options.Server
	server.Protection, server.Log = p, mgr.GetLogger()
	if err := mgr.AddReadyzCheck("reviews", server.Ready); err != nil {
		return err
	}
	return mgr.Add(server)
}

// NewProtection creates the Protection, without a server. It reads its protectors after the manager has started.
func NewProtection(mgr manager.Manager, options Options) (*Protection, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	metrics, log := newMetrics(options.Metrics), mgr.GetLogger()
	cells := newCells()
	cells.tracer = options.Tracer
	retrier, err := addRetrier(mgr, options, cells, metrics)
	if err != nil {
		return nil, fmt.Errorf("add the retrier: %w", err)
	}
	var cores coreSet
	for name := range options.Cores {
		core, err := addCore(mgr, name, options, metrics, retrier.Trigger)
		if err != nil {
			return nil, err
		}
		if core.cellRegistry != nil {
			cells.registries = append(cells.registries, core.cellRegistry)
		}
		cores = append(cores, core)
	}
	for name, config := range options.Cells {
		if err := cells.addStatic(name, config); err != nil {
			return nil, err
		}
	}
	p := newProtection(cores, cells, retrier, metrics, options.Tracer, log, options.Now)
	if options.NodeGuard {
		p.recordRemovals(options.Server != nil && options.Server.Audit)
	}
	return p, nil
}

// addRetrier adds the retrier to the manager; nil if it is not enabled.
func addRetrier(mgr manager.Manager, options Options, cells *cells, metrics *metrics) (*wake.Retrier, error) {
	if !options.EnableRetrier {
		return nil, nil
	}
	retrier := wake.New(cells, metrics.retries, mgr.GetLogger())
	return retrier, mgr.Add(retrier)
}

// addCore adds a core cluster to the manager, with its registry of Cells and its probe.
func addCore(mgr manager.Manager, name string, options Options, metrics *metrics, onChange func()) (c *core, err error) {
	source := options.Cores[name]
	if source != cluster.Cluster(mgr) {
		if err := mgr.Add(source); err != nil {
			return nil, fmt.Errorf("add core cluster %s: %w", name, err)
		}
	}
	core := connectCore(name, options, metrics, mgr.GetLogger(), onChange)
	if core.cellRegistry != nil {
		if err := mgr.Add(core.cellRegistry); err != nil {
			return nil, fmt.Errorf("add the Cells of core cluster %s: %w", name, err)
		}
	}
	if err := mgr.Add(core); err != nil {
		return nil, fmt.Errorf("add core cluster %s: %w", name, err)
	}
	if core.reserver.probe.probe, err = addProbe(mgr, metrics, name, source.GetConfig(), options.ProbeInterval); err != nil {
		return nil, fmt.Errorf("probe core cluster %s: %w", name, err)
	}
	return core, nil
}

// addProbe adds a probe that tells and exports whether a core cluster answers and is ready; nil without an interval.
func addProbe(mgr manager.Manager, metrics *metrics, core string, config *rest.Config, interval time.Duration) (*clusters.Probe, error) {
	if interval == 0 {
		return nil, nil
	}
	probe, err := metrics.newProbe(core, config, interval)
	if err != nil {
		return nil, err
	}
	return probe, mgr.Add(probe)
}

// NeedLeaderElection returns false: all replicas answer.
func (s *Server) NeedLeaderElection() bool { return false }
