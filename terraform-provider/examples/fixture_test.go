package examples_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// createFixture creates the namespaces that the examples assume, and fakes of the components that process all objects. When the test ends,
// it deletes all Breakwater objects.
func createFixture(t *testing.T) {
	t.Helper()
	c := testplane.Client(t)
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	err := createAll(t, c,
		&corev1.Namespace{ObjectMeta: named("", "breakwater-system")}, &corev1.Namespace{ObjectMeta: named("", "shop")},
		&corev1.ServiceAccount{ObjectMeta: named("breakwater-system", "breakwater-access")},
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
		clear(t, c)
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			actAsComponents(ctx, c)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// createAll creates the objects that do not exist yet.
func createAll(t *testing.T, c client.Client, objects ...client.Object) error {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// actAsComponents acts as the components: it marks all objects ready for their newest generation, and clears dead cells. Failed requests
// are retried.
func actAsComponents(ctx context.Context, c client.Client) {
	protectors, cells, rings := &v1alpha1.PodProtectorList{}, &v1alpha1.CellList{}, &v1alpha1.ClusterRingList{}
	_ = c.List(ctx, protectors)
	_ = c.List(ctx, cells)
	_ = c.List(ctx, rings)
	for _, p := range protectors.Items {
		if p.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
			p.Status.Cells = nil
			if c.Status().Update(ctx, &p) == nil {
				delete(p.Annotations, v1alpha1.AnnotationRemoveCell)
				_ = c.Update(ctx, &p)
			}
			continue
		}
		if p.Status.ObservedGeneration < p.Generation {
			p.Status.ObservedGeneration = p.Generation
			ready(&p.Status.Conditions, p.Generation, v1alpha1.ConditionReady)
			_ = c.Status().Update(ctx, &p)
		}
	}
	for _, cell := range cells.Items {
		if !slices.ContainsFunc(cell.Status.Conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == cell.Generation }) {
			ready(&cell.Status.Conditions, cell.Generation, v1alpha1.ConditionReady, v1alpha1.ConditionConnected,
				v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionGuarded)
			_ = c.Status().Update(ctx, &cell)
		}
	}
	for _, ring := range rings.Items {
		if ring.Status.ObservedGeneration < ring.Generation {
			ring.Status.ObservedGeneration = ring.Generation
			ready(&ring.Status.Conditions, ring.Generation, v1alpha1.ConditionReady)
			_ = c.Status().Update(ctx, &ring)
		}
	}
	actAsSchedulingWebhooks(ctx, c)
}

// actAsSchedulingWebhooks acts as the webhooks that apply scheduling policies.
func actAsSchedulingWebhooks(ctx context.Context, c client.Client) {
	policies, wide := &v1alpha1.PodSchedulingPolicyList{}, &v1alpha1.ClusterPodSchedulingPolicyList{}
	_ = c.List(ctx, policies)
	_ = c.List(ctx, wide)
	take := func(policy client.Object, status *v1alpha1.PodSchedulingPolicyStatus) {
		if status.ObservedGeneration < policy.GetGeneration() {
			status.ObservedGeneration = policy.GetGeneration()
			ready(&status.Conditions, policy.GetGeneration(), v1alpha1.ConditionReady)
			_ = c.Status().Update(ctx, policy)
		}
	}
	for i := range policies.Items {
		take(&policies.Items[i], &policies.Items[i].Status)
	}
	for i := range wide.Items {
		take(&wide.Items[i], &wide.Items[i].Status)
	}
}

func ready(conditions *[]metav1.Condition, generation int64, types ...string) {
	for _, name := range types {
		apimeta.SetStatusCondition(conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionTrue, Reason: "Played", Message: "by the test", ObservedGeneration: generation})
	}
}

// createStuckProtectors creates the protectors that the action examples name: a deleted one that is held, and one with a dead cell.
func createStuckProtectors(t *testing.T) (held, dead *v1alpha1.PodProtector) {
	t.Helper()
	c := testplane.Client(t)
	make := func(name string, finalizers ...string) *v1alpha1.PodProtector {
		return &v1alpha1.PodProtector{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Finalizers: finalizers},
			Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)},
		}
	}
	held, dead = make("old", v1alpha1.FinalizerHold), make("burned")
	if err := createAll(t, c, held, dead); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	testplane.Eventually(t, func() string {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(dead), dead); err != nil {
			t.Fatal(err)
		}
		dead.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-9", Aggregation: v1alpha1.Aggregation{LastEventTime: metav1.NowMicro()}}}
		if err := c.Status().Update(t.Context(), dead); err != nil {
			return err.Error()
		}
		return ""
	})
	return held, dead
}

// gone returns the current protector, or nil if it was deleted.
func gone(t *testing.T, p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	t.Helper()
	now := &v1alpha1.PodProtector{}
	if err := testplane.Client(t).Get(t.Context(), client.ObjectKeyFromObject(p), now); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		t.Fatal(err)
	}
	return now
}

// clear deletes the objects of a test that failed halfway.
func clear(t *testing.T, c client.Client) {
	t.Helper()
	for _, kind := range []client.Object{
		&v1alpha1.PodProtector{}, &v1alpha1.ProtectionPolicy{}, &v1alpha1.PodSchedulingPolicy{}, &corev1.Secret{},
	} {
		for _, namespace := range []string{"breakwater-system", "shop"} {
			if err := c.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, kind := range []client.Object{
		&v1alpha1.ClusterProtectionPolicy{}, &v1alpha1.Cell{}, &v1alpha1.ClusterRing{}, &v1alpha1.ClusterPodSchedulingPolicy{},
	} {
		if err := c.DeleteAllOf(context.Background(), kind); err != nil {
			t.Error(err)
		}
	}
}
