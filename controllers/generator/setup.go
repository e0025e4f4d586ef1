package generator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// workers is how many Deployments are reconciled at once. It bounds the time until all are protected after a
// first start: each needs a few requests, which mostly wait for the apiserver.
const workers = 8

// A write that fails is tried again after 50 ms, 100 ms, ... and at least every 30 s: while a release fails, the
// deletion of a Deployment waits, and its owner with it.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Options configure the generator.
type Options struct {
	// Selector chooses the Deployments that have protectors, by their labels.
	Selector labels.Selector
	// Registry takes the generator's metrics.
	Registry prometheus.Registerer
	// Losses are the keeper's, which makes protectors anew that vanished; nil when there is no keeper.
	Losses Losses
}

// Setup adds the generator to a manager whose cache was made with CacheOptions. The informers start with the
// manager, also while another instance leads, so that a new leader starts with full caches.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	metrics, err := NewMetrics(options.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	c, err := controller.New(Name, mgr, controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		Reconciler: &Reconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Selector: options.Selector,
			Events:   mgr.GetEventRecorder(Name),
			Metrics:  metrics,
			Losses:   options.Losses,
		},
	})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), &appsv1.Deployment{},
		&handler.TypedEnqueueRequestForObject[*appsv1.Deployment]{}, deploymentChanged())); err != nil {
		return fmt.Errorf("watch Deployments: %w", err)
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), &v1alpha1.PodProtector{},
		handler.TypedEnqueueRequestsFromMapFunc(sourceOf), protectorChanged(options.Losses))); err != nil {
		return fmt.Errorf("watch PodProtectors: %w", err)
	}
	return addReadiness(ctx, mgr)
}

// addReadiness makes the manager ready when its caches hold all Deployments and protectors: from then on it
// leads or stands by, since the manager stands for election only after that.
func addReadiness(ctx context.Context, mgr manager.Manager) error {
	var informers []cache.Informer
	for _, kind := range []client.Object{&appsv1.Deployment{}, &v1alpha1.PodProtector{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		informers = append(informers, informer)
	}
	return mgr.AddReadyzCheck("caches", func(*http.Request) error {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return errors.New("the caches of Deployments and PodProtectors are not filled yet")
			}
		}
		return nil
	})
}
