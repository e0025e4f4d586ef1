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
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// world has what examples take for granted: namespaces, and components that take everything up. When the test ends nothing
// of Breakwater is left.
func world(t *testing.T) {
	t.Helper()
	c := testplane.Client(t)
	for _, name := range []string{"breakwater-system", "shop"} {
		err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
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
			takeUp(ctx, c)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// takeUp plays the components: all is ready that was not, of its newest generation. What fails is tried again.
func takeUp(ctx context.Context, c client.Client) {
	protectors, cells := &v1alpha1.PodProtectorList{}, &v1alpha1.CellList{}
	_ = c.List(ctx, protectors)
	_ = c.List(ctx, cells)
	for _, p := range protectors.Items {
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
}

func ready(conditions *[]metav1.Condition, generation int64, types ...string) {
	for _, name := range types {
		apimeta.SetStatusCondition(conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionTrue, Reason: "Played", Message: "by the test", ObservedGeneration: generation})
	}
}

// clear deletes what a test left that failed in the midst.
func clear(t *testing.T, c client.Client) {
	t.Helper()
	for _, kind := range []client.Object{
		&v1alpha1.PodProtector{}, &v1alpha1.ProtectionPolicy{}, &corev1.Secret{},
	} {
		for _, namespace := range []string{"breakwater-system", "shop"} {
			if err := c.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, kind := range []client.Object{&v1alpha1.ClusterProtectionPolicy{}, &v1alpha1.Cell{}} {
		if err := c.DeleteAllOf(context.Background(), kind); err != nil {
			t.Error(err)
		}
	}
}
