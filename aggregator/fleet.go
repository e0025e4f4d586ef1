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

// Fleet runs an aggregator for each Cell of a core cluster whose kubeconfig is in a Secret, and follows additions and removals
// of Cells. The connection reloads a rotated kubeconfig without involving the aggregator.
type Fleet struct {
	manager manager.Manager
	// options are those of each aggregator, except its cell.
	options Options
	roster  *clusters.Roster
	log     logr.Logger
	changed chan struct{}
	running map[string]*running
}

// running is an aggregator of the fleet.
type running struct {
	*Aggregator
	cell       types.UID
	connection *clusters.Rotating
	metrics    func()
	stop       context.CancelFunc
	ended      chan struct{}
}

// tryAgain is the retry interval for a Cell whose aggregator could not start, or has ended.
const tryAgain = 5 * time.Second

// SetupFleetWithManager adds a fleet to the manager of its core cluster. options are those of each of its aggregators, except
// Cell, CellConfig and Cluster.
func SetupFleetWithManager(mgr manager.Manager, options Options) error {
	log := mgr.GetLogger()
	f := &Fleet{
		manager: mgr, options: options, roster: clusters.NewRoster(mgr, "aggregator", log), log: log,
		changed: make(chan struct{}, 1), running: map[string]*running{},
	}
	f.roster.Changed = func(string) {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	ready := func(*http.Request) error {
		if !f.roster.Read() {
			return errors.New("the Cells of the core cluster are not read yet")
		}
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("cells", ready), mgr.Add(f.roster), mgr.Add(f))
}

// NeedLeaderElection returns false: each cell has its own leader election.
func (f *Fleet) NeedLeaderElection() bool { return false }

// Start runs the aggregators until ctx ends and all of them have released their cells.
func (f *Fleet) Start(ctx context.Context) error {
	again := time.NewTicker(tryAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		f.keepUp(ctx)
		select {
		case <-ctx.Done():
		case <-again.C:
		case <-f.changed:
		}
	}
	for name := range f.running {
		f.end(name)
	}
	return nil
}

// keepUp stops aggregators whose Cell was deleted or changed, and starts those of new Cells.
func (f *Fleet) keepUp(ctx context.Context) {
	for name, r := range f.running {
		member, there := f.roster.Member(name)
		if !there || member.Cell.UID != r.cell || member.Connection != r.connection || r.over() {
			f.end(name)
		} else if t := r.term.Load(); t != nil && member.Cell.DeletionTimestamp != nil {
			t.drain()
		}
	}
	for _, name := range f.roster.Names() {
		member, there := f.roster.Member(name)
		if _, runs := f.running[name]; runs || !there || member.Connection == nil {
			continue
		}
		if err := f.begin(ctx, name, member); err != nil {
			f.log.Error(err, "A cell has no aggregator", "cell", name)
		}
	}
}

func (f *Fleet) begin(ctx context.Context, name string, member clusters.Member) error {
	options, own := f.options, prometheus.NewRegistry()
	options.Cell, options.CellConfig, options.Cluster, options.Metrics = name, member.Connection.Config(), member.Cluster, own
	shared := prometheus.WrapRegistererWith(prometheus.Labels{"cell": name}, f.options.Metrics)
	a, err := newAggregator(ctx, f.manager, options)
	if err != nil {
		return err
	}
	if err := shared.Register(own); err != nil {
		return errors.Join(fmt.Errorf("metrics of cell %s: %w", name, err), a.forgetProtectors())
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{
		Aggregator: a, cell: member.Cell.UID, connection: member.Connection, stop: stop, ended: make(chan struct{}),
		metrics: func() { shared.Unregister(own) },
	}
	f.running[name] = r
	go func() {
		defer close(r.ended)
		if err := a.Start(ctx); err != nil {
			f.log.Error(err, "An aggregator has ended", "cell", name)
		}
	}()
	f.log.Info("A cell has an aggregator", "cell", name)
	return nil
}

func (r *running) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (f *Fleet) end(name string) {
	r := f.running[name]
	delete(f.running, name)
	r.stop()
	<-r.ended
	r.metrics()
	if err := r.forgetProtectors(); err != nil {
		f.log.Error(err, "Protectors are told to an aggregator that has ended", "cell", name)
	}
	f.log.Info("A cell has no aggregator any more", "cell", name)
}

// forgetProtectors removes the aggregator's event handlers from the core's cache.
func (a *Aggregator) forgetProtectors() error {
	err := a.informer.RemoveEventHandler(a.handler)
	if a.unwatch != nil {
		err = errors.Join(err, a.unwatch())
	}
	return err
}
