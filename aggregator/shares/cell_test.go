package shares

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A cache that does not show the copy yet hides neither that it exists nor that a user deleted it.
func TestCopiedCellIsCreatedWhateverTheCacheShows(t *testing.T) {
	stored, late := fakeShares(), true
	shares := interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if late {
				return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "cells"}, key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	k := &Keeper{Cell: "a", Shares: shares, Current: func() *v1alpha1.Cell { return &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}} }}
	for range 2 {
		if err := k.syncCell(t.Context()); err != nil {
			t.Fatalf("with a late cache: %v", err)
		}
	}
	copied := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	late = false
	if err := errors.Join(stored.Delete(t.Context(), copied), k.syncCell(t.Context()), stored.Get(t.Context(), client.ObjectKey{Name: "a"}, copied)); err != nil {
		t.Errorf("after the copy was deleted before the cache had shown it: %v", err)
	}
}

// Several cores may have Cells of one name for a cluster. Their shares are counted by one copy of it, which must be safe for all.
func TestCellsOfSeveralCoresShareACopy(t *testing.T) {
	web := &v1alpha1.PodSelector{MatchLabels: map[string]string{"pool": "web"}}
	cellOf := func(selector *v1alpha1.PodSelector, deadline time.Duration) *v1alpha1.Cell {
		return &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.CellSpec{
			PodSelector: selector, AdmissionDeadline: &metav1.Duration{Duration: deadline}, Settlement: v1alpha1.SettlementClock,
		}}
	}
	for name, test := range map[string]struct {
		second *v1alpha1.Cell
		// want is the deadline of the copy; 0 if the second core gets no shares.
		want time.Duration
	}{
		"equal":                      {cellOf(web, time.Minute), time.Minute},
		"a longer deadline":          {cellOf(web, time.Hour), time.Hour},
		"a shorter deadline":         {cellOf(web, time.Second), time.Minute},
		"all pods of the cluster":    {cellOf(nil, time.Minute), 0},
		"other pods of that cluster": {cellOf(&v1alpha1.PodSelector{MatchLabels: map[string]string{"pool": "db"}}, time.Minute), 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.PodProtector{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"},
				Spec:       v1alpha1.PodProtectorSpec{MinAvailable: v1alpha1.Pods(1), CoreOutage: v1alpha1.CoreOutageLocalShare},
			}
			p.Status.Cells = []v1alpha1.PodProtectorCell{{
				CellID: "a", Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec), CountedReplicas: 3, TermVersion: "1"},
			}}
			shares := fakeShares()
			keeper := func(cell *v1alpha1.Cell) *Keeper {
				return &Keeper{Cell: "a", Shares: shares, Live: shares, Core: fakeShares(), Current: func() *v1alpha1.Cell { return cell }, Draining: func() bool { return false }}
			}
			first, second := keeper(cellOf(web, time.Minute)), keeper(test.second)
			for range 2 { // the second time, nothing may change any more
				if err := first.syncCell(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := second.syncCell(t.Context()); errors.Is(err, errOtherPods) != (test.want == 0) || test.want > 0 && err != nil {
					t.Fatalf("the second core: %v, want that it has other pods: %v", err, test.want == 0)
				}
			}
			copied := &v1alpha1.Cell{}
			if err := shares.Get(t.Context(), client.ObjectKey{Name: "a"}, copied); err != nil {
				t.Fatal(err)
			}
			if copied.Spec.Settlement != v1alpha1.SettlementExact || test.want > 0 && copied.Spec.AdmissionDeadline.Duration != test.want {
				t.Errorf("the copy is %+v, want one that settles exactly, with a deadline of %s", copied.Spec, test.want)
			}
			if err := shares.Delete(t.Context(), copied.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(first.syncCell(t.Context()), shares.Get(t.Context(), client.ObjectKey{Name: "a"}, copied)); err != nil {
				t.Errorf("the copy is not created again after it was deleted: %v", err)
			}
			if _, err := second.prepare(t.Context(), p.DeepCopy(), p); err != nil {
				t.Fatal(err)
			}
			share, err := second.find(t.Context(), shares, p)
			if err != nil || (share != nil) != (test.want > 0) {
				t.Errorf("the share for the second core is %v: %v, want one: %v", share, err, test.want > 0)
			}
		})
	}
}
