package aggregator_test

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// replace deletes the protector and creates it again, as kubectl replace --force does.
func (l *fixture) replace() *v1alpha1.PodProtector {
	l.Helper()
	old := l.protector()
	if err := l.client.Delete(l.Context(), old); err != nil {
		l.Fatal(err)
	}
	l.eventually(func() string {
		if err := l.client.Get(l.Context(), client.ObjectKeyFromObject(old), &v1alpha1.PodProtector{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the protector is there: %v", err)
		}
		return ""
	})
	return l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
}

// createBystander creates a protector of another name, and waits until it is counted.
func (l *fixture) createBystander(name string) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
	p.Spec.MinAvailable = v1alpha1.Pods(1)
	l.create(p)
	l.eventually(func() string {
		if err := l.client.Get(l.Context(), client.ObjectKeyFromObject(p), p); err != nil || quota.CellOf(p, l.cell) == nil {
			return fmt.Sprintf("%s is not counted: %v", name, err)
		}
		return ""
	})
}

// A removal was admitted and has not taken effect when its protector is replaced. The new protector has no reservation for it, and must
// not be counted before it has.
func TestReplacedProtectorWaitsForRemovalsInFlight(t *testing.T) {
	for claim, c := range map[string]struct {
		deadline time.Duration
		reserved bool
		counted  bool
	}{
		"not before the admission deadline":  {time.Hour, true, false},
		"when the deadline has passed":       {5 * time.Second, true, true},
		"at once when nothing was under way": {time.Hour, false, true},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}, Spec: v1alpha1.CellSpec{
				AdmissionDeadline: &metav1.Duration{Duration: c.deadline},
			}})
			l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
			pod := l.createPod("web-0", true)
			l.createPod("web-1", true)
			l.run("a")
			all := v1alpha1.Summary{Total: 2, Available: 2, EstimatedAvailable: 2, Ready: 2, Running: 2, Scheduled: 2}
			l.wantSummary(all)
			if c.reserved {
				l.reserve(removalOf(l.cell, pod))
			}
			l.replace()
			if c.counted {
				l.wantSummary(all)
				return
			}
			l.createBystander("first") // these two come after it in the queue
			l.createBystander("second")
			if cells := l.protector().Status.Cells; len(cells) > 0 {
				t.Errorf("counted while a removal is in flight: %+v", cells)
			}
		})
	}
}
