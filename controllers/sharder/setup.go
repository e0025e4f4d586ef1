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

// Options configure the controllers.
type Options struct {
	// Roll provides the shards. It belongs to the same manager, and tombstones silent shards where the controllers run.
	Roll *members.Roll
	// ClientConfig returns how the API server reaches the admission webhook, without a path. The controllers call it repeatedly, to follow
	// a certificate authority that is replaced. Without a caBundle, another component injects one, or the API server uses its own trust.
	ClientConfig func() admissionregistrationv1.WebhookClientConfig
	// Annotations are put on the webhook configurations, such as those by which another component decides what to inject.
	Annotations map[string]string
	// Kicks are names of rings that need a pass: some objects may not be with their shards, or the address of the webhook has changed.
	// Several kicks of a ring are combined into one pass. A nil channel means that there are no kicks.
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

// takeKicks requests the passes that kicks ask for. Only the leader receives kicks, because only the leader makes passes.
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

// wait sleeps for a duration, or until ctx ends.
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

// addReadiness fills the caches also while another replica leads, so that a new leader starts with full caches.
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
