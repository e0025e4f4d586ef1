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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Options say what is made for whom.
type Options struct {
	// Secret is what the replicas of the webhook serve; that of its authority has the same name and -ca. Without a name no certificate is made.
	Secret client.ObjectKey
	// CallerSecret has the keys of caller tokens; without a name there are none. It must exist.
	CallerSecret client.ObjectKey
	// Configurations are the names of the ValidatingWebhookConfigurations that shall trust it, and MutatingConfigurations, of the
	// MutatingWebhookConfigurations, also when they come later.
	Configurations, MutatingConfigurations []string
	Terms
	// Spread is how long an authority is trusted before a certificate of its is served, and Overlap, for how long after that the
	// one before it stays trusted.
	Spread, Overlap time.Duration
	// CallerOverlap is how long tokens of the previous key are accepted after every configuration has one of the current key.
	CallerOverlap time.Duration
}

// CacheOptions see no other Secret than that one. Without a name there is no Secret in the cache.
func CacheOptions(secret client.ObjectKey) cache.Options {
	options := clusters.CacheOptions()
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
		secret.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", secret.Name)},
	}}}
	return options
}

// Setup adds the controllers to a manager, whose cache has CacheOptions, and says when it is ready.
func Setup(ctx context.Context, mgr manager.Manager, options Options, registry prometheus.Registerer) error {
	var awaited []client.Object
	if options.Secret.Name != "" {
		m, err := NewMetrics(registry)
		if err != nil {
			return err
		}
		r := &Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: mgr.GetLogger(), Now: time.Now, Metrics: m, Options: options,
		}
		same := reconcile.Request{NamespacedName: options.Secret}
		secrets := source.Kind(mgr.GetCache(), &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *corev1.Secret) []reconcile.Request { return []reconcile.Request{same} }))
		if err := control(mgr, Name, r, same, options.kinds(), secrets); err != nil {
			return err
		}
		awaited = append(awaited, &corev1.Secret{})
	}
	if options.CallerSecret.Name != "" {
		r := &CallerReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: mgr.GetLogger(), Now: time.Now, Options: options}
		if err := control(mgr, callersName, r, reconcile.Request{NamespacedName: options.CallerSecret}, options.kinds()); err != nil {
			return err
		}
	}
	for _, k := range options.kinds() {
		awaited = append(awaited, k.empty())
	}
	return clusters.AddReadiness(ctx, mgr, "Secrets and webhook configurations", awaited...)
}

// control adds a controller that has one request, also whenever a webhook configuration changes.
func control(mgr manager.Manager, name string, r reconcile.Reconciler, same reconcile.Request, kinds []kind, more ...source.Source) error {
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler: r, SkipNameValidation: ptr.To(true), // tests run it several times in a process
	})
	if err != nil {
		return fmt.Errorf("make the controller %s: %w", name, err)
	}
	// Whatever exists, there is work from the beginning.
	begin := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(same)
		return nil
	})
	sources := append([]source.Source{begin}, more...)
	for _, k := range kinds {
		named := func(_ context.Context, c client.Object) []reconcile.Request {
			if slices.Contains(k.names, c.GetName()) {
				return []reconcile.Request{same}
			}
			return nil
		}
		sources = append(sources, source.Kind(mgr.GetCache(), k.empty(), handler.TypedEnqueueRequestsFromMapFunc(named)))
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}
