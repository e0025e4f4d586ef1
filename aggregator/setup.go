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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Options of an aggregator.
type Options struct {
	// Cell is the name of the Cell object in the core cluster.
	Cell string
	// CellConfig reaches the cluster that runs the cell's pods.
	CellConfig *rest.Config
	// Cluster is the UID of that cluster's namespace kube-system; empty when it is not known. Another one than the Cell's
	// is refused.
	Cluster string
	// Membership is the place in a ring by which this process shares the cell out with others; nil is to lead it alone, or to
	// wait to.
	Membership Membership
	// Interest is what of the core's protectors the cache keeps, of a cell that is shared out; nil is all.
	Interest *clusters.Interest
	// Identity of this process among the candidates for the cell's leadership.
	Identity string
	// LeaseNamespace in the core cluster holds the Lease; LeaseDuration is how long a leader that does not
	// answer keeps it.
	LeaseNamespace string
	LeaseDuration  time.Duration
	// Heartbeat is the time between two reports to the Cell's status.
	Heartbeat time.Duration
	// Workers is how many protectors are written at the same time.
	Workers int
	// Trigger drives events in a cell of mode Clock or Status; the zero value does not.
	Trigger Trigger
	// ProbeEvery is how often the cell is asked whether it is ready, for metrics; 0 is never.
	ProbeEvery time.Duration
	// Metrics is where the aggregator registers its metrics.
	Metrics prometheus.Registerer
	// Tracer makes spans; nil makes none. Those who connect to the core let it tell the apiserver.
	Tracer *tracing.Tracer
	// Past notices that the core was restored from a backup: that of its cache's options. Nil is not to notice by the cache.
	Past *clusters.Past
	// Now is the wall clock, by which pods have been ready for long enough; nil is the machine's.
	Now func() time.Time
}

// Aggregator leads a cell, or waits to.
type Aggregator struct {
	options    Options
	core       client.Client
	live       client.Reader
	protectors *clusters.Protectors
	past       *clusters.Past
	informer   toolscache.SharedIndexInformer
	leases     kubernetes.Interface
	pods       kubernetes.Interface
	podNames   metadata.Interface
	scales     dynamic.Interface
	kinds      meta.RESTMapper
	// handler takes in changes of protectors.
	handler toolscache.ResourceEventHandlerRegistration
	// unwatch ends what the core's cache tells of who has which slots; nil when nobody asks.
	unwatch func() error
	metrics *metrics
	// probe asks the cell whether it is ready; nil when nobody does.
	probe  *clusters.Probe
	events events.EventRecorder
	log    logr.Logger
	// now is the wall clock, for minReadySeconds. Deadlines are timed by monotonic, which nobody can set.
	now, monotonic func() time.Time
	// clock judges how long pods have been ready.
	clock *steadyClock
	// endings are the protectors that ended lately.
	endings endings
	// transitions are the specs of protectors that changed lately.
	transitions transitions

	// leading has room for one: the term that runs, so that there is never more than one.
	leading chan struct{}
	// epoch is the highest that this process has had.
	epoch int64
	// term is the current leadership; nil while another process leads.
	term atomic.Pointer[term]
	// told is why the cell was not shared, as it was told last.
	told string
	// rivals tell whether others report that count the cell in another way.
	rivals heartbeat.Pulses
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
	a := &Aggregator{
		options:    options,
		core:       mgr.GetClient(),
		live:       mgr.GetAPIReader(),
		protectors: &clusters.Protectors{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Past: options.Past},
		past:       options.Past,
		metrics:    newMetrics(options.Metrics),
		events:     mgr.GetEventRecorder("breakwater-aggregator"),
		log:        mgr.GetLogger().WithValues("cell", options.Cell),
		now:        options.Now,
		monotonic:  time.Now,
		leading:    make(chan struct{}, 1),
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.clock = &steadyClock{wall: a.now, monotonic: a.monotonic}
	a.clock.now() // a leadership that begins after a step ahead does not follow it either
	a.past.Tell(a.restored)
	return a, a.connect(ctx, mgr)
}

func (a *Aggregator) connect(ctx context.Context, mgr manager.Manager) error {
	var err error
	if a.leases, err = kubernetes.NewForConfig(mgr.GetConfig()); err != nil {
		return fmt.Errorf("client of the core cluster: %w", err)
	}
	cell := rest.CopyConfig(a.options.CellConfig)
	a.options.Tracer.Through(cell)
	if a.podNames, err = metadata.NewForConfig(cell); err != nil {
		return fmt.Errorf("metadata client of cell %s: %w", a.options.Cell, err)
	}
	if a.scales, err = dynamic.NewForConfig(cell); err != nil {
		return fmt.Errorf("dynamic client of cell %s: %w", a.options.Cell, err)
	}
	if a.probe, err = a.metrics.probe(a.options.Metrics, cell, a.options.ProbeEvery); err != nil {
		return fmt.Errorf("probe cell %s: %w", a.options.Cell, err)
	}
	calls, err := rest.HTTPClientFor(cell)
	if err != nil {
		return fmt.Errorf("client of cell %s: %w", a.options.Cell, err)
	}
	if a.kinds, err = apiutil.NewDynamicRESTMapper(cell, calls); err != nil {
		return fmt.Errorf("kinds of cell %s: %w", a.options.Cell, err)
	}
	cell.ContentType = "application/vnd.kubernetes.protobuf"
	if a.pods, err = kubernetes.NewForConfig(cell); err != nil {
		return fmt.Errorf("client of cell %s: %w", a.options.Cell, err)
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("the cache of the core cluster has an informer of type %T", informer)
	}
	a.informer = shared
	a.handler, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.protectorSeen(obj); a.protectorChanged(obj) },
		UpdateFunc: func(old, obj any) { a.protectorReplaced(old, obj); a.protectorSeen(obj); a.protectorChanged(obj) },
		DeleteFunc: func(obj any) { a.protectorDeleted(obj); a.protectorChanged(obj) },
	})
	if err != nil || a.options.Membership == nil {
		return err
	}
	return a.watchShares(ctx, mgr)
}

// NeedLeaderElection is false: the lease is one for each cell and handled here, so that a process that loses
// it stands for the next term instead of ending.
func (a *Aggregator) NeedLeaderElection() bool { return false }

// Start stands for the leadership of the cell, again and again, until ctx ends.
func (a *Aggregator) Start(ctx context.Context) error {
	if a.probe != nil {
		go func() { _ = a.probe.Start(ctx) }() // it ends with ctx, and has no error
	}
	stand := a.standOnce
	if a.options.Membership != nil {
		stand = a.shareOnce
	}
	for ctx.Err() == nil {
		if err := stand(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	a.leading <- struct{}{} // the last term has said farewell
	return nil
}

// standOnce waits for the leadership, leads, and returns when it is over.
func (a *Aggregator) standOnce(ctx context.Context) error {
	ctx, resign := context.WithCancel(klog.NewContext(ctx, a.log))
	defer resign()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lease{LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: a.options.LeaseNamespace, Name: a.leaseName()},
			Client:     a.leases.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: a.options.Identity},
		}, pauses: makingPauses()},
		LeaseDuration:   a.options.LeaseDuration,
		RenewDeadline:   a.options.LeaseDuration * 2 / 3,
		RetryPeriod:     a.options.LeaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				a.leading <- struct{}{}
				defer func() { <-a.leading }()
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

// ready is true when the process can do its job: it has read the protectors, and, when it leads, the pods.
func (a *Aggregator) ready(*http.Request) error {
	if !a.informer.HasSynced() {
		return errors.New("PodProtectors of the core cluster are not read yet")
	}
	if t := a.term.Load(); t != nil {
		if !t.isListed() {
			return errors.New("pods of the cell are not listed yet")
		}
	}
	return nil
}

// protectorChanged puts a protector into the queue of the current term.
func (a *Aggregator) protectorChanged(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	p, ok := obj.(*v1alpha1.PodProtector)
	t := a.term.Load()
	if !ok || t == nil {
		return
	}
	t.protectorChanged(p)
}

func keyOf(p *v1alpha1.PodProtector) types.NamespacedName { return client.ObjectKeyFromObject(p) }
