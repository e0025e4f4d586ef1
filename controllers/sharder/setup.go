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
	Roll *members.ShardTracker
	// ClientConfig returns how the API server reaches the admission webhook, without a path. The controllers call it repeatedly, to follow
	// a certificate authority that is replaced. Without a caBundle, another component injects one, or the API server uses its own trust.
	ClientConfig func() admissionregistrationv1.WebhookClientConfig
	// Annotations are put on the webhook configurations, such as those by which another component decides what to inject.
	Annotations map[string]string
	// PassRequests are names of rings that need a pass: some objects may not be with their shards. Several requests of a ring are combined into
	// one pass. A nil channel means that there are no requests.
	PassRequests <-chan string
	Registry     prometheus.Registerer
}

// Setup adds the controllers to a manager, which elects a leader for them.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	return setup(ctx, mgr, options, defaultTiming())
}

func setup(ctx context.Context, mgr manager.Manager, options Options, tempo timing) error {
	metrics := NewMetrics(options.Registry)
	statusEnqueuer, passEnqueuer := &enqueuer{}, &enqueuer{}
	results := &passResults{byRing: map[string]passResult{}, notify: statusEnqueuer.enqueue}
	passes, err := newPassReconciler(mgr, options, metrics, results, tempo)
	if err != nil {
		return err
	}
	r := &Reconciler{
		client: mgr.GetClient(), clientConfig: options.ClientConfig, annotations: options.Annotations, registry: options.Roll,
		checkSpec: passes.checkSpec, results: results, events: passes.events, metrics: metrics, clock: passes.clock, states: map[string]ringState{},
		requestPass: func(ring string) {
			passes.requestPass(ring)
			passEnqueuer.enqueue(ring)
		},
	}
	options.Roll.OnChange(func(ring string) {
		statusEnqueuer.enqueue(ring)
		passEnqueuer.enqueue(ring)
	})
	if err := r.setup(mgr, statusEnqueuer); err != nil {
		return err
	}
	if err := passes.setup(mgr, passEnqueuer, r.requestPass); err != nil {
		return err
	}
	if err := forwardRequests(mgr, options.PassRequests, func(ring string) {
		statusEnqueuer.enqueue(ring)
		r.requestPass(ring)
	}); err != nil {
		return err
	}
	return addReadiness(ctx, mgr, options.Roll)
}

func newPassReconciler(mgr manager.Manager, options Options, metrics *Metrics, results *passResults, tempo timing) (*PassReconciler, error) {
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(mgr.GetConfig()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the metadata client: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return &PassReconciler{
		getRing: func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error) {
			clusterRing := &v1alpha1.ClusterRing{}
			return clusterRing, mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, clusterRing)
		},
		webhook: options.ClientConfig(),
		objects: cluster{metadataClient}, namespaces: namespaceReader{mgr.GetClient(), mgr.GetAPIReader()}, registry: options.Roll,
		checkSpec: newSpecChecker(clientset).check, events: mgr.GetEventRecorder(Name), metrics: metrics, results: results,
		clock: clock{tempo, time.Now, wait}, rings: newRingHistories(),
	}, nil
}

// forwardRequests forwards requests of passes. Only the leader receives them, because only the leader makes passes.
func forwardRequests(mgr manager.Manager, requests <-chan string, request func(ring string)) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case ring := <-requests:
				request(ring)
			}
		}
	}))
	if err != nil {
		return fmt.Errorf("add the pass requests: %w", err)
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
func addReadiness(ctx context.Context, mgr manager.Manager, roll *members.ShardTracker) error {
	err := clusters.AddReadiness(ctx, mgr, "ClusterRings, webhook configurations and namespaces",
		&v1alpha1.ClusterRing{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, clusters.EmptyNamespace())
	if err != nil {
		return err
	}
	return mgr.AddReadyzCheck("shards", func(*http.Request) error {
		if !roll.HasSynced() {
			return fmt.Errorf("the Leases of shards have not been read yet")
		}
		return nil
	})
}
