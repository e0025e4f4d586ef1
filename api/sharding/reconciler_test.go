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

// desk is a shard with one ConfigMap, its reconcilers and its drainer.
type desk struct {
	*testing.T
	shard   *Shard
	client  client.Client
	drainer *drainer
}

func newDesk(t *testing.T, labels map[string]string, change ...func(*corev1.ConfigMap)) *desk {
	t.Helper()
	s := newShardOf(time.Minute)
	s.ring, s.name = "r", "a"
	if err := s.hold.renewed(time.Now()); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: labels}}
	for _, c := range change {
		c(object)
	}
	d := &desk{T: t, shard: s, client: fake.NewClientBuilder().WithObjects(object).Build()}
	d.drainer = &drainer{shard: s, client: s.Client(d.client), kind: configMapKind(), object: &corev1.ConfigMap{}}
	return d
}

func configMapKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("ConfigMap") }

func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: "o"}}
}

func (d *desk) reconciler(inner reconcile.Func) reconcile.Reconciler {
	return &reconciler{shard: d.shard, client: d.client, kind: configMapKind(), object: &corev1.ConfigMap{}, inner: inner}
}

func (d *desk) labels() map[string]string {
	d.Helper()
	object := &corev1.ConfigMap{}
	if err := d.client.Get(d.Context(), request().NamespacedName, object); err != nil {
		d.Fatal(err)
	}
	return object.Labels
}

func own() map[string]string {
	return map[string]string{"breakwater.dev/shard-r": "a", "l": "l"}
}

func asked() map[string]string {
	return map[string]string{"breakwater.dev/shard-r": "a", "breakwater.dev/drain-r": "true", "l": "l"}
}

func deleted(object *corev1.ConfigMap) {
	now := metav1.Now()
	object.DeletionTimestamp, object.Finalizers = &now, []string{"example.com/f"}
}

func TestWhatIsReconciled(t *testing.T) {
	for claim, of := range map[string]struct {
		labels map[string]string
		change func(*desk)
		calls  int
		again  bool
		fails  error
	}{
		"an object of the shard":       {own(), nil, 1, false, nil},
		"not one of another shard":     {map[string]string{"breakwater.dev/shard-r": "b"}, nil, 0, false, nil},
		"not one of nobody":            {nil, nil, 0, false, nil},
		"not one of another ring":      {map[string]string{"breakwater.dev/shard-q": "a"}, nil, 0, false, nil},
		"not one that is asked for":    {asked(), nil, 0, true, nil},
		"one that another ring drains": {map[string]string{"breakwater.dev/shard-r": "a", "breakwater.dev/drain-q": "true"}, nil, 1, false, nil},
		"not one that is just let go of": {own(), func(d *desk) {
			d.shard.work.letGo(job{kind: configMapKind(), key: request().NamespacedName})
		}, 0, true, nil},
		"none when the Lease is not held": {own(), func(d *desk) { d.shard.hold.end(errBuried) }, 0, false, ErrNotHeld},
		"not one that is gone": {own(), func(d *desk) {
			if err := d.client.Delete(d.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o"}}); err != nil {
				d.Fatal(err)
			}
		}, 0, false, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			d, calls := newDesk(t, of.labels), 0
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

func TestAReconcileEndsWithTheHold(t *testing.T) {
	d := newDesk(t, own())
	_, err := d.reconciler(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		d.shard.hold.end(errBuried)
		<-ctx.Done()
		return reconcile.Result{}, context.Cause(ctx)
	}).Reconcile(t.Context(), request())
	if !errors.Is(err, ErrNotHeld) || !errors.Is(err, errBuried) {
		t.Errorf("it ended with %v", err)
	}
}

func TestWhatIsLetGoOf(t *testing.T) {
	for claim, of := range map[string]struct {
		labels  map[string]string
		object  func(*corev1.ConfigMap)
		change  func(*desk)
		letsGo  bool
		again   bool
		failing bool
	}{
		"what the shard is asked for":           {asked(), func(*corev1.ConfigMap) {}, nil, true, false, false},
		"what is deleted":                       {asked(), deleted, nil, true, false, false},
		"what the shard is not asked for":       {own(), func(*corev1.ConfigMap) {}, nil, false, false, false},
		"what another shard is asked for, not":  {map[string]string{"breakwater.dev/shard-r": "b", "breakwater.dev/drain-r": "true"}, func(*corev1.ConfigMap) {}, nil, false, false, false},
		"what somebody works on, when he ends":  {asked(), func(*corev1.ConfigMap) {}, func(d *desk) { d.shard.work.begin(job{kind: configMapKind(), key: request().NamespacedName}) }, false, true, false},
		"nothing when the Lease is not held":    {asked(), func(*corev1.ConfigMap) {}, func(d *desk) { d.shard.hold.end(errBuried) }, false, false, true},
		"what somebody else has changed, later": {asked(), func(*corev1.ConfigMap) {}, func(d *desk) { d.drainer.client = d.shard.Client(behind{d.client}) }, false, true, false},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newDesk(t, of.labels, of.object)
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

// behind is a stale cache: it returns an old resourceVersion.
type behind struct{ client.Client }

func (b behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := b.Client.Get(ctx, key, object, options...)
	object.SetResourceVersion("1")
	return err
}

func TestAnObjectIsLetGoOfOnlyWhenNobodyWorksOnIt(t *testing.T) {
	d := newDesk(t, own())
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
	if err := d.client.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: asked()}}); err != nil {
		t.Fatal(err)
	}
	// Another reconciler of the same type runs and returns.
	if _, err := d.reconciler(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		t.Error("it is reconciled though it is asked for")
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
		t.Errorf("something is left: %v", d.shard.work.jobs)
	}
}

// during is a client that calls what after each read.
type during struct {
	client.Client
	what func()
}

func (d during) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := d.Client.Get(ctx, key, object, options...)
	d.what()
	return err
}

func TestAnObjectIsNotLetGoOfBetweenReadingAndReconciling(t *testing.T) {
	d := newDesk(t, own())
	cached := during{d.client, func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "o", Labels: asked()}}
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
