package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/shares"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Options configure an aggregator.
type Options struct {
	// Cell is the name of the Cell object in the core cluster.
	Cell string
	// CellConfig reaches the cluster that runs the cell's pods.
	CellConfig *rest.Config
	// Cluster is the UID of that cluster's namespace kube-system; empty if unknown. The aggregator refuses a Cell of another
	// cluster.
	Cluster string
	// Membership is the place in a ring through which this process shares the cell with others; nil means that it leads the
	// cell alone, or waits to.
	Membership *ownership.RingShard
	// Interest selects the core's protectors that the cache keeps, for a cell that shards share; nil keeps all.
	Interest *clusters.CacheFilter
	// Identity of this process among the candidates for the cell's leadership.
	Identity string
	// LeaseNamespace is the namespace of the Lease in the core cluster; LeaseDuration is how long an unresponsive leader
	// keeps it.
	LeaseNamespace string
	LeaseDuration  time.Duration
	// Heartbeat is the time between two reports to the Cell's status.
	Heartbeat time.Duration
	// Workers is how many protectors are processed at the same time.
	Workers int
	// Trigger causes events in a cell of mode Clock or Status; the zero value disables it.
	Trigger modes.Trigger
	// Shares reaches the shares of the cell in its cluster, whose watch must see them all; nil gives the cell no shares.
	Shares cluster.Cluster
	// OfShares makes the aggregator count for shares of the cell, and for nothing else. Its core is the cluster of the cell then.
	OfShares bool
	// ReportGaps makes the aggregator report what looks protected and is not: it watches the webhook configurations and the namespaces of the
	// cell's cluster to find namespaces that they exempt, and finds workloads there whose label has no effect. It also labels the namespaces
	// with protectors, which a webhook of scope Protected depends on.
	ReportGaps bool
	// LabelRetention is how long that label stays after the last protector; 0 is ten minutes.
	LabelRetention time.Duration
	// NodeGuardNamespace is where node guards read which pods are protected, in the cell's cluster; empty publishes nothing.
	NodeGuardNamespace string
	// ProbeEvery is the interval of the cell's readiness probes, for metrics; 0 disables them.
	ProbeEvery time.Duration
	// Metrics is where the aggregator registers its metrics.
	Metrics prometheus.Registerer
	// Tracer creates spans; nil disables tracing. The caller also lets it propagate spans to the API server of the core.
	Tracer *tracing.Tracer
	// RestoreDetector detects that the core was restored from a backup; it is that of the cache's options. Nil disables detection by the
	// cache.
	RestoreDetector *clusters.RestoreDetector
	// Now is the wall clock, by which the time that pods have been ready is judged; nil is the machine's.
	Now func() time.Time
}

// coreCluster is how an aggregator reaches its core.
type coreCluster struct {
	client client.Client
	// reader reads live.
	reader    client.Reader
	clientset kubernetes.Interface
	informer  toolscache.SharedIndexInformer
	// protectors reads and writes protectors, and restores detects that the core was restored.
	protectors *clusters.Protectors
	restores   *clusters.RestoreDetector
}

// cellCluster is how an aggregator reaches the cluster of its cell.
type cellCluster struct {
	clientset kubernetes.Interface
	// trimmedPods is the client that streams pods, and live reads them.
	trimmedPods corev1client.PodsGetter
	live        snapshot.LiveReader
	metadata    metadata.Interface
	dynamic     dynamic.Interface
	mapper      meta.RESTMapper
	// events are those on objects of the cluster. They are sent while Start runs.
	events events.EventBroadcaster
}

// clocks are the clocks of an aggregator.
type clocks struct {
	// now is the wall clock, for minReadySeconds. Deadlines use monotonic, which cannot be set.
	now, monotonic func() time.Time
	// steady judges how long pods have been ready.
	steady *steadyClock
}

// Aggregator leads a cell, or waits to.
type Aggregator struct {
	options Options
	core    coreCluster
	cell    cellCluster
	clocks  clocks
	metrics *metrics
	// probe checks the readiness of the cell; nil if disabled.
	probe  *clusters.Probe
	events events.EventRecorder
	log    logr.Logger
	// history is what the watch has shown, and guardVersions are the versions of what was published for node guards, also in earlier leaderships.
	history       protectorHistory
	guardVersions map[string]int64
	// takeover begins leaderships.
	takeover *cellTakeover
	// handlers remove the event handlers from the core's cache.
	handlers []func() error

	// oneLeadership has capacity one, for the running leadership, so that there is never more than one.
	oneLeadership chan struct{}
	// current is the current leadership; nil while another process leads.
	current atomic.Pointer[leadership]
}

// SetupWithManager adds an aggregator to the manager of its core cluster.
func SetupWithManager(ctx context.Context, mgr manager.Manager, options Options) error {
	options.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"cell": options.Cell}, options.Metrics)
	a, err := newAggregator(ctx, mgr, options)
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("aggregator", a.ready); err != nil {
		return err
	}
	return mgr.Add(a)
}

func newAggregator(ctx context.Context, mgr manager.Manager, options Options) (*Aggregator, error) {
	now := options.Now
	if now == nil {
		now = time.Now
	}
	a := &Aggregator{
		options: options,
		core: coreCluster{
			client: mgr.GetClient(), reader: mgr.GetAPIReader(), restores: options.RestoreDetector,
			protectors: &clusters.Protectors{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), RestoreDetector: options.RestoreDetector},
		},
		clocks:        clocks{now: now, monotonic: time.Now, steady: &steadyClock{wall: now, monotonic: time.Now}},
		metrics:       newMetrics(options.Metrics),
		events:        mgr.GetEventRecorder("breakwater-aggregator"),
		log:           mgr.GetLogger().WithValues("cell", options.Cell),
		history:       protectorHistory{cell: options.Cell, monotonic: time.Now},
		guardVersions: map[string]int64{},
		oneLeadership: make(chan struct{}, 1),
	}
	a.clocks.steady.now() // a leadership that begins after a step ahead does not follow that step either
	a.core.restores.OnRestore(a.onRestore)
	return a, a.connect(ctx, mgr)
}

func (a *Aggregator) connect(ctx context.Context, mgr manager.Manager) error {
	var err error
	if a.core.clientset, err = kubernetes.NewForConfig(mgr.GetConfig()); err != nil {
		return fmt.Errorf("client of the core cluster: %w", err)
	}
	cell := rest.CopyConfig(a.options.CellConfig)
	a.options.Tracer.WrapConfig(cell)
	if a.cell.metadata, err = metadata.NewForConfig(cell); err != nil {
		return fmt.Errorf("metadata client of cell %s: %w", a.options.Cell, err)
	}
	if a.cell.dynamic, err = dynamic.NewForConfig(cell); err != nil {
		return fmt.Errorf("dynamic client of cell %s: %w", a.options.Cell, err)
	}
	if a.probe, err = a.metrics.probe(a.options.Metrics, cell, a.options.ProbeEvery); err != nil {
		return fmt.Errorf("probe cell %s: %w", a.options.Cell, err)
	}
	calls, err := rest.HTTPClientFor(cell)
	if err != nil {
		return fmt.Errorf("client of cell %s: %w", a.options.Cell, err)
	}
	if a.cell.mapper, err = apiutil.NewDynamicRESTMapper(cell, calls); err != nil {
		return fmt.Errorf("discover the kinds of cell %s: %w", a.options.Cell, err)
	}
	cell.ContentType = "application/vnd.kubernetes.protobuf"
	if a.cell.clientset, err = kubernetes.NewForConfig(cell); err != nil {
		return fmt.Errorf("client of cell %s: %w", a.options.Cell, err)
	}
	a.cell.events = events.NewBroadcaster(&events.EventSinkImpl{Interface: a.cell.clientset.EventsV1()})
	if a.cell.trimmedPods, err = snapshot.NewTrimmedPods(cell); err != nil {
		return fmt.Errorf("client of the pods of cell %s: %w", a.options.Cell, err)
	}
	a.cell.live = snapshot.LiveReader{Clientset: a.cell.clientset, Metadata: a.cell.metadata, Lists: a.metrics.liveReads}
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("the cache of the core cluster has an informer of type %T", informer)
	}
	a.core.informer = shared
	a.takeover = &cellTakeover{
		options: a.options, core: a.core, monotonic: a.clocks.monotonic, log: a.log, holders: &conflictingHolders{
			cell: a.options.Cell, leases: a.core.clientset.CoordinationV1().Leases(a.options.LeaseNamespace), monotonic: a.clocks.monotonic,
		},
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.protectorSeen(obj) },
		UpdateFunc: func(old, obj any) { a.history.replaced(old, obj); a.protectorSeen(obj) },
		DeleteFunc: func(obj any) { a.history.deleted(obj); a.protectorChanged(obj) },
	})
	a.handlers = append(a.handlers, func() error { return informer.RemoveEventHandler(handler) })
	if a.options.Shares != nil {
		err = errors.Join(err, shares.Watch(ctx, a.options.Shares, a.options.Cell, a.shareKeeper))
	}
	if err != nil || a.options.Membership == nil {
		return err
	}
	return a.watchSlotOwnership(ctx, mgr)
}

// NeedLeaderElection returns false: each cell has its own Lease, which is handled here. A process that loses it becomes a
// candidate for the next leadership instead of exiting.
func (a *Aggregator) NeedLeaderElection() bool { return false }

// Start repeatedly runs for the leadership of the cell, until ctx ends.
func (a *Aggregator) Start(ctx context.Context) error {
	if a.probe != nil {
		go func() { _ = a.probe.Start(ctx) }() // it ends with ctx, and returns no error
	}
	if workers := a.options.Shares; workers != nil {
		go shares.NewMonitor(a.options.Cell, a.core.reader, workers.GetClient(), a.shareKeeper, a.metrics.shareState, a.clocks.monotonic, a.log).Run(ctx)
	}
	defer a.cell.events.Shutdown()
	if err := a.cell.events.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("send events to cell %s: %w", a.options.Cell, err)
	}
	runOnce := a.runElectionOnce
	if a.options.Membership != nil {
		runOnce = a.runShardOnce
	}
	for ctx.Err() == nil {
		if err := runOnce(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	a.oneLeadership <- struct{}{} // the last leadership has released the cell
	return nil
}

// runElectionOnce waits for the leadership, leads, and returns when it has ended.
func (a *Aggregator) runElectionOnce(ctx context.Context) error {
	ctx, resign := context.WithCancel(klog.NewContext(ctx, a.log))
	defer resign()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lease{LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: a.options.LeaseNamespace, Name: leaseName(a.options.Cell)},
			Client:     a.core.clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: a.options.Identity},
		}, createBackoff: newCreateBackoff()},
		LeaseDuration:   a.options.LeaseDuration,
		RenewDeadline:   a.options.LeaseDuration * 2 / 3,
		RetryPeriod:     a.options.LeaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				a.oneLeadership <- struct{}{}
				defer func() { <-a.oneLeadership }()
				defer resign()
				a.lead(ctx)
			},
			OnStoppedLeading: func() {},
		},
		Name: a.options.Cell,
	})
	if err != nil {
		return fmt.Errorf("leader election of cell %s: %w", a.options.Cell, err)
	}
	elector.Run(ctx)
	return nil
}

// ready returns an error until the process can do its job: it has read the protectors and, if it leads, the pods.
func (a *Aggregator) ready(*http.Request) error {
	if !a.core.informer.HasSynced() {
		return errors.New("PodProtectors of the core cluster are not read yet")
	}
	if l := a.current.Load(); l != nil {
		if !l.isListed() {
			return errors.New("pods of the cell are not listed yet")
		}
	}
	return nil
}

// Keeper returns the keeper of the shares in the current leadership; nil while another process leads.
func (a *Aggregator) shareKeeper() *shares.Keeper {
	if l := a.current.Load(); l != nil {
		return l.reconciler.shares
	}
	return nil
}

// protectorSeen handles the state of a protector that the watch shows.
func (a *Aggregator) protectorSeen(obj any) {
	if p, ok := obj.(*v1alpha1.PodProtector); ok {
		a.core.protectors.Confirm(p)
	}
	a.history.seen(obj)
	a.protectorChanged(obj)
}

// protectorChanged enqueues a protector in the current leadership.
func (a *Aggregator) protectorChanged(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	p, ok := obj.(*v1alpha1.PodProtector)
	l := a.current.Load()
	if !ok || l == nil {
		return
	}
	l.enqueuer.protectorChanged(p)
}
