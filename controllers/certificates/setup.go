package certificates

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// Options say what is made for whom.
type Options struct {
	// Secret is what the replicas of the webhook serve; that of its authority has the same name and -ca.
	Secret client.ObjectKey
	// Configurations are the names of the ValidatingWebhookConfigurations that shall trust it, and MutatingConfigurations, of the
	// MutatingWebhookConfigurations, also when they come later.
	Configurations, MutatingConfigurations []string
	Terms
	// Spread is how long an authority is trusted before a certificate of its is served, and Overlap, for how long after that the
	// one before it stays trusted.
	Spread, Overlap time.Duration
}

// CacheOptions see no other Secret than that one.
func CacheOptions(secret client.ObjectKey) cache.Options {
	options := fleet.CacheOptions()
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
		secret.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", secret.Name)},
	}}}
	return options
}

// Setup adds the controller to a manager, whose cache has CacheOptions, and says when it is ready.
func Setup(ctx context.Context, mgr manager.Manager, options Options, registry prometheus.Registerer) error {
	m, err := NewMetrics(registry)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: mgr.GetLogger(), Now: time.Now, Metrics: m, Options: options,
	}
	c, err := controller.New(Name, mgr, controller.Options{Reconciler: r})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	same := []reconcile.Request{{NamespacedName: options.Secret}}
	// Whatever exists, there is work from the beginning.
	begin := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(same[0])
		return nil
	})
	secrets := source.Kind(mgr.GetCache(), &corev1.Secret{},
		handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *corev1.Secret) []reconcile.Request { return same }))
	sources, awaited := []source.Source{begin, secrets}, []client.Object{&corev1.Secret{}}
	for _, k := range options.kinds() {
		named := func(_ context.Context, c client.Object) []reconcile.Request {
			if slices.Contains(k.names, c.GetName()) {
				return same
			}
			return nil
		}
		sources = append(sources, source.Kind(mgr.GetCache(), k.empty(), handler.TypedEnqueueRequestsFromMapFunc(named)))
		awaited = append(awaited, k.empty())
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return fleet.AddReadiness(ctx, mgr, "Secrets and webhook configurations", awaited...)
}
