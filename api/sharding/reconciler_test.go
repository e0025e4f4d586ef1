package sharding

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// harness is a shard with one ConfigMap, its reconcilers and its drainer.
type harness struct {
	*testing.T
	shard   *Shard
	client  client.Client
	drainer *drainer
}

func newHarness(t *testing.T, labels map[string]string, change ...func(*corev1.ConfigMap)) *harness {
	t.Helper()
	s := newShardOf(time.Minute)
	s.ring, s.name = "r", "a"
	if err := s.hold.recordRenewal(time.Now()); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: labels}}
	for _, c := range change {
		c(object)
	}
	d := &harness{T: t, shard: s, client: fake.NewClientBuilder().WithObjects(object).Build()}
	d.drainer = &drainer{shard: s, client: s.Client(d.client), kind: configMapKind(), object: &corev1.ConfigMap{}}
	return d
}

func configMapKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("ConfigMap") }

func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: "o"}}
}

func (d *harness) reconciler(inner reconcile.Func) reconcile.Reconciler {
	return &reconciler{shard: d.shard, client: d.client, kind: configMapKind(), object: &corev1.ConfigMap{}, inner: inner}
}

func (d *harness) labels() map[string]string {
	d.Helper()
	object := &corev1.ConfigMap{}
	if err := d.client.Get(d.Context(), request().NamespacedName, object); err != nil {
		d.Fatal(err)
	}
	return object.Labels
}

func ownLabels() map[string]string {
	return map[string]string{"breakwater.dev/shard-r": "a", "l": "l"}
}

func drainRequestedLabels() map[string]string {
	return map[string]string{"breakwater.dev/shard-r": "a", "breakwater.dev/drain-r": "true", "l": "l"}
}

func setDeletionTimestamp(object *corev1.ConfigMap) {
	now := metav1.Now()
	object.DeletionTimestamp, object.Finalizers = &now, []string{"example.com/f"}
}

func TestReconcilerHandlesOwnObjects(t *testing.T) {
	for claim, of := range map[string]struct {
		labels map[string]string
		change func(*harness)
		calls  int
		again  bool
		fails  error
	}{
		"an object of the shard":       {ownLabels(), nil, 1, false, nil},
		"not one of another shard":     {map[string]string{"breakwater.dev/shard-r": "b"}, nil, 0, false, nil},
		"not one without a shard":      {nil, nil, 0, false, nil},
		"not one of another ring":      {map[string]string{"breakwater.dev/shard-q": "a"}, nil, 0, false, nil},
		"not one with a drain request": {drainRequestedLabels(), nil, 0, true, nil},
		"one that another ring drains": {map[string]string{"breakwater.dev/shard-r": "a", "breakwater.dev/drain-q": "true"}, nil, 1, false, nil},
		"not one that is being released": {ownLabels(), func(d *harness) {
			d.shard.work.startRelease(job{kind: configMapKind(), key: request().NamespacedName})
		}, 0, true, nil},
		"none when the Lease is not held": {ownLabels(), func(d *harness) { d.shard.hold.end(errTaken) }, 0, false, ErrNotHeld},
		"not one that does not exist": {ownLabels(), func(d *harness) {
			if err := d.client.Delete(d.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o"}}); err != nil {
				d.Fatal(err)
			}
		}, 0, false, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			d, calls := newHarness(t, of.labels), 0
			if of.change != nil {
				of.change(d)
			}
			result, err := d.reconciler(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				calls++
				return reconcile.Result{}, nil
			}).Reconcile(t.Context(), request())
			if calls != of.calls || (result.RequeueAfter > 0) != of.again || !errors.Is(err, of.fails) || (err != nil) != (of.fails != nil) {
				t.Errorf("called %d times, want %d; again %s, want %t; says %v, want %v", calls, of.calls, result.RequeueAfter, of.again, err, of.fails)
			}
		})
	}
}

func TestReconcileContextEndsWithTheLease(t *testing.T) {
	d := newHarness(t, ownLabels())
	_, err := d.reconciler(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		d.shard.hold.end(errTaken)
		<-ctx.Done()
		return reconcile.Result{}, context.Cause(ctx)
	}).Reconcile(t.Context(), request())
	if !errors.Is(err, ErrNotHeld) || !errors.Is(err, errTaken) {
		t.Errorf("it ended with %v", err)
	}
}

func TestDrainerReleasesObjects(t *testing.T) {
	for claim, of := range map[string]struct {
		labels  map[string]string
		object  func(*corev1.ConfigMap)
		change  func(*harness)
		letsGo  bool
		again   bool
		failing bool
	}{
		"a drain request":                    {drainRequestedLabels(), func(*corev1.ConfigMap) {}, nil, true, false, false},
		"a deleted object":                   {drainRequestedLabels(), setDeletionTimestamp, nil, true, false, false},
		"not without a drain request":        {ownLabels(), func(*corev1.ConfigMap) {}, nil, false, false, false},
		"not an object of another shard":     {map[string]string{"breakwater.dev/shard-r": "b", "breakwater.dev/drain-r": "true"}, func(*corev1.ConfigMap) {}, nil, false, false, false},
		"an object after its reconcile":      {drainRequestedLabels(), func(*corev1.ConfigMap) {}, func(d *harness) { d.shard.work.begin(job{kind: configMapKind(), key: request().NamespacedName}) }, false, true, false},
		"nothing when the Lease is not held": {drainRequestedLabels(), func(*corev1.ConfigMap) {}, func(d *harness) { d.shard.hold.end(errTaken) }, false, false, true},
		"a changed object, later":            {drainRequestedLabels(), func(*corev1.ConfigMap) {}, func(d *harness) { d.drainer.client = d.shard.Client(staleClient{d.client}) }, false, true, false},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newHarness(t, of.labels, of.object)
			before := d.labels()
			if of.change != nil {
				of.change(d)
			}
			result, err := d.drainer.Reconcile(t.Context(), request())
			if (err != nil) != of.failing || (result.RequeueAfter > 0) != of.again {
				t.Errorf("again %s, want %t; says %v", result.RequeueAfter, of.again, err)
			}
			after := d.labels()
			letGo := after["breakwater.dev/shard-r"] == "" && after["breakwater.dev/drain-r"] == "done"
			if letGo != of.letsGo || !letGo && len(after) != len(before) || after["l"] != before["l"] {
				t.Errorf("before it has labels %v, after %v", before, after)
			}
		})
	}
}

// staleClient is a stale cache: it returns an old resourceVersion.
type staleClient struct{ client.Client }

func (b staleClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := b.Client.Get(ctx, key, object, options...)
	object.SetResourceVersion("1")
	return err
}

func TestObjectIsReleasedOnlyWithoutWorkers(t *testing.T) {
	d := newHarness(t, ownLabels())
	begun, end := make(chan struct{}), make(chan struct{})
	slow := d.reconciler(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		close(begun)
		<-end
		return reconcile.Result{}, nil
	})
	ended := make(chan struct{})
	go func() {
		_, _ = slow.Reconcile(t.Context(), request())
		close(ended)
	}()
	<-begun
	if err := d.client.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: drainRequestedLabels()}}); err != nil {
		t.Fatal(err)
	}
	// Another reconciler of the same type runs and returns.
	if _, err := d.reconciler(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		t.Error("object reconciled despite a drain request")
		return reconcile.Result{}, nil
	}).Reconcile(t.Context(), request()); err != nil {
		t.Error(err)
	}
	result, err := d.drainer.Reconcile(t.Context(), request())
	if err != nil || result.RequeueAfter == 0 || d.labels()["breakwater.dev/shard-r"] != "a" {
		t.Errorf("while it is worked on: %v, again %s, labels %v", err, result.RequeueAfter, d.labels())
	}
	close(end)
	<-ended
	if _, err := d.drainer.Reconcile(t.Context(), request()); err != nil || d.labels()["breakwater.dev/shard-r"] != "" {
		t.Errorf("after that: %v, labels %v", err, d.labels())
	}
	if len(d.shard.work.jobs) > 0 {
		t.Errorf("jobs left: %v, want none", d.shard.work.jobs)
	}
}

// hookedClient is a client that calls what after each read.
type hookedClient struct {
	client.Client
	afterGet func()
}

func (d hookedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := d.Client.Get(ctx, key, object, options...)
	d.afterGet()
	return err
}

func TestObjectIsNotReleasedBetweenReadAndReconcile(t *testing.T) {
	d := newHarness(t, ownLabels())
	cached := hookedClient{d.client, func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: drainRequestedLabels()}}
		if err := d.client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if _, err := d.drainer.Reconcile(t.Context(), request()); err != nil {
			t.Error(err)
		}
	}}
	r := &reconciler{shard: d.shard, client: cached, kind: configMapKind(), object: &corev1.ConfigMap{}}
	r.inner = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if labels := d.labels(); labels["breakwater.dev/shard-r"] != "a" {
			t.Errorf("it is reconciled with labels %v", labels)
		}
		return reconcile.Result{}, nil
	})
	if _, err := r.Reconcile(t.Context(), request()); err != nil {
		t.Error(err)
	}
}
