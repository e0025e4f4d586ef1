package sharding_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// runShard runs a shard in this process until the test ends. Its controller of Deployments uses the predicates.
func (r *ring) runShard(shard string, inner reconcile.Func, predicates ...predicate.Predicate) *sharding.Shard {
	r.Helper()
	s, mgr := r.newManager(shard)
	reconciler, err := s.Reconciler(mgr, &appsv1.Deployment{}, inner)
	if err != nil {
		r.Fatal(err)
	}
	building := builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}, builder.WithPredicates(predicates...)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4})
	for _, p := range predicates {
		building = building.WithEventFilter(p)
	}
	if err := building.Complete(reconciler); err != nil {
		r.Fatal(err)
	}
	r.runManager(mgr)
	testplane.Eventually(r, func() string {
		if !s.Held() {
			return "shard " + shard + " does not hold its Lease"
		}
		return ""
	})
	return s
}

// newManager creates a shard and its manager.
func (r *ring) newManager(shard string) (*sharding.Shard, manager.Manager) {
	r.Helper()
	s, err := sharding.New(r.Context(), r.account, sharding.Options{
		Ring: r.name, Name: shard, Objects: []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}},
	})
	if err != nil {
		r.Fatal(err)
	}
	several := true
	mgr, err := s.NewManager(manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &several},
	})
	if err != nil {
		r.Fatal(err)
	}
	return s, mgr
}

// runManager runs a manager until the test ends.
func (r *ring) runManager(mgr manager.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("the manager ended: %v", err)
		}
	})
}

func (r *ring) awaitRelease(deployment string) {
	r.Helper()
	testplane.Eventually(r, func() string {
		if r.record.released(deployment) == 0 {
			return deployment + " was not released"
		}
		return ""
	})
}

func (r *ring) deployment(name string) *appsv1.Deployment {
	r.Helper()
	deployment := &appsv1.Deployment{}
	if err := r.Get(r.Context(), client.ObjectKey{Namespace: r.name, Name: name}, deployment); err != nil {
		r.Fatal(err)
	}
	return deployment
}

func TestObjectIsReleasedAfterItsReconcile(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	r.createDeployments(2, "a")
	begun, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.runShard("a", func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		if request.Name == "web-0" {
			once.Do(func() { close(begun) })
			<-end
		}
		return reconcile.Result{}, nil
	})
	<-begun
	for i := range 2 {
		r.drain(r.deployment(fmt.Sprintf("web-%d", i)))
	}
	r.awaitRelease("web-1") // by now web-0 would be released too
	if labels := r.deployment("web-0").Labels; labels[v1alpha1.LabelShard(r.name)] != "a" || labels[v1alpha1.LabelDrain(r.name)] == "" {
		t.Errorf("labels during the reconcile = %v, want the shard and the drain", labels)
	}
	close(end)
	r.awaitRelease("web-0")
}

func TestObjectIsReleasedRegardlessOfPredicates(t *testing.T) {
	t.Parallel()
	for claim, filter := range map[string]predicate.Predicate{
		"nothing":     predicate.NewPredicateFuncs(func(client.Object) bool { return false }),
		"generations": predicate.And(predicate.GenerationChangedPredicate{}, predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}),
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, 15)
			r.createDeployments(1, "a")
			r.runShard("a", func(context.Context, reconcile.Request) (reconcile.Result, error) {
				t.Error("object was reconciled, want it released only")
				return reconcile.Result{}, nil
			}, filter)
			r.drain(r.deployment("web-0"))
			r.awaitRelease("web-0")
		})
	}
}

func TestDeletedObjectIsReconciledAndReleased(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	r.createDeployments(1, "a")
	object := r.deployment("web-0")
	object.Finalizers = []string{"example.com/test"}
	if err := r.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	var reconciled atomic.Int64
	r.runShard("a", func(context.Context, reconcile.Request) (reconcile.Result, error) {
		reconciled.Add(1)
		return reconcile.Result{}, nil
	})
	await := func(more int64) {
		testplane.Eventually(t, func() string {
			if reconciled.Load() < more {
				return fmt.Sprintf("it was reconciled %d times, want %d", reconciled.Load(), more)
			}
			return ""
		})
	}
	await(1)
	r.drain(object)
	r.awaitRelease("web-0")
	before := reconciled.Load()
	r.assign(object, "a") // it comes back to the shard
	await(before + 1)
}
