package certificates

import (
	"context"
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

// Options configure the controllers.
type Options struct {
	// Secret is what the replicas of the webhook serve; that of its authority has the same name and the suffix -ca. Without a name, the
	// controller creates no certificate.
	Secret client.ObjectKey
	// CallerSecret has the keys of caller tokens; without a name there are none. It must exist.
	CallerSecret client.ObjectKey
	// Configurations are the names of the ValidatingWebhookConfigurations that should trust the webhook, MutatingConfigurations those of
	// the MutatingWebhookConfigurations. They may be created later.
	Configurations, MutatingConfigurations []string
	Terms
	// Spread is how long an authority is trusted before a certificate of it is served. Overlap is how long after that the previous
	// authority stays trusted.
	Spread, Overlap time.Duration
	// CallerOverlap is how long tokens of the previous key are accepted after every configuration has one of the current key.
	CallerOverlap time.Duration
}

// CacheOptions returns the options of a cache that watches no Secret except the given one. Without a name, it watches none.
func CacheOptions(secret client.ObjectKey) cache.Options {
	options := clusters.CacheOptions()
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
		secret.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", secret.Name)},
	}}}
	return options
}

// Setup adds the controllers to a manager, whose cache must have CacheOptions, and adds a readiness check.
func Setup(ctx context.Context, mgr manager.Manager, options Options, registry prometheus.Registerer) error {
	var awaited []client.Object
	if options.Secret.Name != "" {
		r := &Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: mgr.GetLogger(), Now: time.Now, Metrics: NewMetrics(registry), Options: options,
		}
		request := reconcile.Request{NamespacedName: options.Secret}
		secrets := source.Kind(mgr.GetCache(), &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *corev1.Secret) []reconcile.Request { return []reconcile.Request{request} }))
		if err := addController(mgr, Name, r, request, options.kinds(), secrets); err != nil {
			return err
		}
		awaited = append(awaited, &corev1.Secret{})
	}
	if options.CallerSecret.Name != "" {
		r := &CallerReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: mgr.GetLogger(), Now: time.Now, Options: options}
		if err := addController(mgr, callersName, r, reconcile.Request{NamespacedName: options.CallerSecret}, options.kinds()); err != nil {
			return err
		}
	}
	for _, k := range options.kinds() {
		awaited = append(awaited, k.newObject())
	}
	return clusters.AddReadiness(ctx, mgr, "Secrets and webhook configurations", awaited...)
}

// addController adds a controller with a single request, which also follows each change of a webhook configuration.
func addController(mgr manager.Manager, name string, r reconcile.Reconciler, request reconcile.Request, kinds []configurationKind,
	more ...source.Source) error {
	// Reconcile once at the start, regardless of the objects that exist.
	initial := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(request)
		return nil
	})
	sources := append([]source.Source{initial}, more...)
	for _, k := range kinds {
		mapFunc := func(_ context.Context, c client.Object) []reconcile.Request {
			if slices.Contains(k.names, c.GetName()) {
				return []reconcile.Request{request}
			}
			return nil
		}
		sources = append(sources, source.Kind(mgr.GetCache(), k.newObject(), handler.TypedEnqueueRequestsFromMapFunc(mapFunc)))
	}
	// Tests run the controller several times in a process.
	return clusters.AddController(mgr, name, controller.Options{Reconciler: r, SkipNameValidation: ptr.To(true)}, sources...)
}
