package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// CellAggregators runs an aggregator for each Cell of a core cluster whose kubeconfig is in a Secret, and follows additions and removals
// of Cells. The connection reloads a rotated kubeconfig without involving the aggregator.
type CellAggregators struct {
	manager manager.Manager
	// options are those of each aggregator, except its cell.
	options      Options
	registry     *clusters.CellRegistry
	log          logr.Logger
	syncRequests chan struct{}
	running      map[string]*runningAggregator
}

// runningAggregator is the aggregator of one Cell.
type runningAggregator struct {
	*Aggregator
	cell              types.UID
	connection        *clusters.RotatingConnection
	unregisterMetrics func()
	stop              context.CancelFunc
	ended             chan struct{}
}

// restartInterval is the retry interval for a Cell whose aggregator could not start, or has ended.
const restartInterval = 5 * time.Second

// SetupCellsWithManager adds CellAggregators to the manager of its core cluster. options are those of each aggregator, except
// Cell, CellConfig and Cluster.
func SetupCellsWithManager(mgr manager.Manager, options Options) error {
	log := mgr.GetLogger()
	c := &CellAggregators{
		manager: mgr, options: options, registry: clusters.NewCellRegistry(mgr, "aggregator", log), log: log,
		syncRequests: make(chan struct{}, 1), running: map[string]*runningAggregator{},
	}
	c.registry.Changed = func(string) {
		select {
		case c.syncRequests <- struct{}{}:
		default:
		}
	}
	ready := func(*http.Request) error {
		if !c.registry.HasSynced() {
			return errors.New("the Cells of the core cluster are not read yet")
		}
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("cells", ready), mgr.Add(c.registry), mgr.Add(c))
}

// NeedLeaderElection returns false: each cell has its own leader election.
func (c *CellAggregators) NeedLeaderElection() bool { return false }

// Start runs the aggregators until ctx ends and all of them have released their cells.
func (c *CellAggregators) Start(ctx context.Context) error {
	ticker := time.NewTicker(restartInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.syncCells(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-c.syncRequests:
		}
	}
	for name := range c.running {
		c.stopAggregator(name)
	}
	return nil
}

// syncCells stops aggregators whose Cell was deleted or changed, and starts those of new Cells.
func (c *CellAggregators) syncCells(ctx context.Context) {
	for name, r := range c.running {
		registered, exists := c.registry.Cell(name)
		if !exists || registered.Cell.UID != r.cell || registered.Connection != r.connection || r.hasEnded() {
			c.stopAggregator(name)
		} else if l := r.current.Load(); l != nil && registered.Cell.DeletionTimestamp != nil {
			l.reconciler.entries.startDraining()
		}
	}
	for _, name := range c.registry.Names() {
		registered, exists := c.registry.Cell(name)
		if _, isRunning := c.running[name]; isRunning || !exists || registered.Connection == nil {
			continue
		}
		if err := c.startAggregator(ctx, name, registered); err != nil {
			c.log.Error(err, "Failed to start an aggregator", "cell", name)
		}
	}
}

func (c *CellAggregators) startAggregator(ctx context.Context, name string, registered clusters.RegisteredCell) error {
	options, own := c.options, prometheus.NewRegistry()
	options.Cell, options.CellConfig, options.Cluster, options.Metrics = name, registered.Connection.Config(), registered.Cluster, own
	shared := prometheus.WrapRegistererWith(prometheus.Labels{"cell": name}, c.options.Metrics)
	a, err := newAggregator(ctx, c.manager, options)
	if err != nil {
		return err
	}
	if err := shared.Register(own); err != nil {
		return errors.Join(fmt.Errorf("register metrics of cell %s: %w", name, err), a.removeEventHandlers())
	}
	ctx, stop := context.WithCancel(ctx)
	r := &runningAggregator{
		Aggregator: a, cell: registered.Cell.UID, connection: registered.Connection, stop: stop, ended: make(chan struct{}),
		unregisterMetrics: func() { shared.Unregister(own) },
	}
	c.running[name] = r
	go func() {
		defer close(r.ended)
		if err := a.Start(ctx); err != nil {
			c.log.Error(err, "Aggregator failed", "cell", name)
		}
	}()
	c.log.Info("Started an aggregator", "cell", name)
	return nil
}

func (r *runningAggregator) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (c *CellAggregators) stopAggregator(name string) {
	r := c.running[name]
	delete(c.running, name)
	r.stop()
	<-r.ended
	r.unregisterMetrics()
	if err := r.removeEventHandlers(); err != nil {
		c.log.Error(err, "Failed to remove event handlers of a stopped aggregator", "cell", name)
	}
	c.log.Info("Stopped an aggregator", "cell", name)
}

// removeEventHandlers removes the aggregator's event handlers from the core's cache.
func (a *Aggregator) removeEventHandlers() error {
	var failed []error
	for _, remove := range a.handlers {
		failed = append(failed, remove())
	}
	return errors.Join(failed...)
}
