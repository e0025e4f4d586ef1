package sharder

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
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

// Setup adds the controllers to a manager, which elects a leader for them.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	return setup(ctx, mgr, options, usual())
}

func setup(ctx context.Context, mgr manager.Manager, options Options, tempo tempo) error {
	metrics, err := NewMetrics(options.Registry)
	if err != nil {
		return err
	}
	telling, passing := &bell{}, &bell{}
	found := &findings{of: map[string]finding{}, tell: telling.ring}
	passes, err := newPasses(mgr, options.Roll, metrics, found, tempo)
	if err != nil {
		return err
	}
	r := &Reconciler{
		client: mgr.GetClient(), clientConfig: options.ClientConfig, annotations: options.Annotations, roll: options.Roll,
		inspect: passes.inspect, findings: found, events: passes.events, metrics: metrics, tempo: tempo, now: time.Now, of: map[string]seen{},
		kick: func(ring string) {
			passes.kick(ring)
			passing.ring(ring)
		},
	}
	options.Roll.Tell(func(ring string) {
		telling.ring(ring)
		passing.ring(ring)
	})
	if err := r.setup(mgr, telling); err != nil {
		return err
	}
	if err := passes.setup(mgr, passing, r.kick); err != nil {
		return err
	}
	if err := takeKicks(mgr, options.Kicks, func(ring string) {
		telling.ring(ring)
		r.kick(ring)
	}); err != nil {
		return err
	}
	return addReadiness(ctx, mgr, options.Roll)
}

func newPasses(mgr manager.Manager, roll *members.Roll, metrics *Metrics, found *findings, tempo tempo) (*Passes, error) {
	ofMetadata, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client of metadata: %w", err)
	}
	ofAll, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Passes{
		rings: func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error) {
			of := &v1alpha1.ClusterRing{}
			return of, mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, of)
		},
		objects: cluster{ofMetadata}, namespaces: namespaces{mgr.GetClient(), mgr.GetAPIReader()}, roll: roll,
		inspect: newInspector(ofAll).inspect, events: mgr.GetEventRecorder(Name), metrics: metrics, findings: found, tempo: tempo,
		now: time.Now, wait: wait, of: map[string]*history{}, kicked: map[string]bool{},
	}, nil
}

// takeKicks does what kicks ask for. Only who leads takes them: nobody else could.
func takeKicks(mgr manager.Manager, kicks <-chan string, kick func(ring string)) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case ring := <-kicks:
				kick(ring)
			}
		}
	}))
	if err != nil {
		return fmt.Errorf("take kicks: %w", err)
	}
	return nil
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

// addReadiness fills caches also while another replica leads, so that a new leader starts with full ones.
func addReadiness(ctx context.Context, mgr manager.Manager, roll *members.Roll) error {
	for _, kind := range []client.Object{&v1alpha1.ClusterRing{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, clusters.EmptyNamespace()} {
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
