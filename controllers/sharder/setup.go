package sharder

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/members"
)

const (
	// workers is how many rings are looked at at once.
	workers = 4
	// passWorkers is how many rings have a pass at once. One lasts as long as objects move, and must not keep others waiting.
	passWorkers = 100
)

// Options of the controllers.
type Options struct {
	// Roll knows the shards. It is of the same manager, and buries shards where the controllers run.
	Roll *members.Roll
	// ClientConfig is how the apiserver reaches the admission webhook, without a path. It is asked again and again, so that an authority
	// that is replaced is followed. Without a caBundle that is left to who injects it, or to the apiserver's own trust.
	ClientConfig func() admissionregistrationv1.WebhookClientConfig
	// Annotations are put on the webhook configurations, such as those by which somebody knows what to inject.
	Annotations map[string]string
	// Kicks are names of rings that are to be looked at: some objects may not be where they are to be, or the webhook is reached in
	// another way. However many there are, one look follows, and not one after the other. Nil is nobody who kicks.
	Kicks    <-chan string
	Registry prometheus.Registerer
}

// bell wakes a controller for a ring. One that does not run is not woken.
type bell struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (b *bell) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = queue
	return nil
}

func (b *bell) ring(name string) {
	b.mu.Lock()
	queue := b.queue
	b.mu.Unlock()
	if queue != nil {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

// Setup adds the controllers to a manager, which elects a leader for them.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	return setup(ctx, mgr, options, usual())
}

func setup(ctx context.Context, mgr manager.Manager, options Options, tempo tempo) error {
	metrics, err := NewMetrics(options.Registry)
	if err != nil {
		return err
	}
	ofMetadata, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a client of metadata: %w", err)
	}
	ofAll, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	telling, passing := &bell{}, &bell{}
	found := &findings{of: map[string]finding{}, tell: telling.ring}
	passes := &Passes{
		rings: func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error) {
			of := &v1alpha1.ClusterRing{}
			return of, mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, of)
		},
		objects: cluster{ofMetadata}, namespaces: namespaces{mgr.GetClient(), mgr.GetAPIReader()}, roll: options.Roll,
		inspect: newInspector(ofAll).inspect, events: mgr.GetEventRecorder(Name), metrics: metrics, findings: found, tempo: tempo,
		now: time.Now, wait: wait, of: map[string]*history{}, kicked: map[string]bool{},
	}
	kick := func(ring string) {
		passes.kick(ring)
		passing.ring(ring)
	}
	// Only who leads takes them: nobody else could do what they ask for.
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case ring := <-options.Kicks:
				telling.ring(ring)
				kick(ring)
			}
		}
	})); err != nil {
		return fmt.Errorf("take kicks: %w", err)
	}
	options.Roll.Tell(func(ring string) {
		telling.ring(ring)
		passing.ring(ring)
	})
	r := &Reconciler{
		client: mgr.GetClient(), clientConfig: options.ClientConfig, annotations: options.Annotations, roll: options.Roll,
		inspect: passes.inspect, kick: kick, findings: found, events: passes.events, metrics: metrics, tempo: tempo, now: time.Now, of: map[string]seen{},
	}
	if err := r.setup(mgr, telling); err != nil {
		return err
	}
	if err := passes.setup(mgr, passing, kick); err != nil {
		return err
	}
	return addReadiness(ctx, mgr, options.Roll)
}

// wait lets time pass.
func wait(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (r *Reconciler) setup(mgr manager.Manager, telling *bell) error {
	c, err := controller.New(Name, mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: workers})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	configurations := handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, c *admissionregistrationv1.MutatingWebhookConfiguration) []reconcile.Request {
			name, ok := strings.CutPrefix(c.Name, configurationPrefix)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
		})
	for _, s := range []source.Source{
		source.Func(telling.start), specs(mgr),
		source.Kind(mgr.GetCache(), &admissionregistrationv1.MutatingWebhookConfiguration{}, configurations),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// specs are ClusterRings that come, go, or say something else.
func specs(mgr manager.Manager) source.Source {
	return source.Kind(mgr.GetCache(), &v1alpha1.ClusterRing{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.ClusterRing]{},
		predicate.TypedGenerationChangedPredicate[*v1alpha1.ClusterRing]{})
}

func (r *Passes) setup(mgr manager.Manager, ringing *bell, kick func(ring string)) error {
	c, err := controller.New(Name+"-passes", mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: passWorkers})
	if err != nil {
		return fmt.Errorf("make the controller of passes: %w", err)
	}
	moved := handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{UpdateFunc: func(
		ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], _ workqueue.TypedRateLimitingInterface[reconcile.Request],
	) {
		if maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
			return
		}
		all := &v1alpha1.ClusterRingList{}
		if mgr.GetClient().List(ctx, all) != nil {
			return // the cache is not there any more
		}
		for i := range all.Items {
			if selector, err := selectorOf(&all.Items[i].Spec); err == nil &&
				selector.Matches(labels.Set(e.ObjectOld.Labels)) != selector.Matches(labels.Set(e.ObjectNew.Labels)) {
				kick(all.Items[i].Name)
			}
		}
	}}
	for _, s := range []source.Source{source.Func(ringing.start), specs(mgr), source.Kind(mgr.GetCache(), emptyNamespace(), moved)} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// addReadiness fills caches also while another replica leads, so that a new leader starts with full ones.
func addReadiness(ctx context.Context, mgr manager.Manager, roll *members.Roll) error {
	for _, kind := range []client.Object{&v1alpha1.ClusterRing{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, emptyNamespace()} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return mgr.AddReadyzCheck("shards", func(*http.Request) error {
		if !roll.HasSynced() {
			return fmt.Errorf("the Leases of shards were not read yet")
		}
		return nil
	})
}
