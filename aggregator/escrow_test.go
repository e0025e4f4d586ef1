package aggregator_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The holder of an escrow has stopped. What it admitted without naming it may take effect until the admission deadline has passed, and its escrow stays until
// then, on the clock of the aggregator.
func TestEscrowOfStoppedHolderEndsAfterTheDeadline(t *testing.T) {
	const deadline = 5 * time.Second // the shortest
	l := newFixture(t)
	l.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}, Spec: v1alpha1.CellSpec{AdmissionDeadline: &metav1.Duration{Duration: deadline}}})
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("web-0", true)
	gone := l.createPod("web-1", true)
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 2, Available: 2, EstimatedAvailable: 2, Ready: 2, Running: 2, Scheduled: 2})
	if p := l.protector(); !p.Status.Cells[0].Aggregation.KnowsEscrows {
		t.Fatalf("the aggregator does not say that it knows escrows: %+v", p.Status.Cells[0].Aggregation)
	}
	hold := func(stamp int64) time.Time {
		began := time.Now()
		l.eventually(func() string {
			p := l.protector()
			quota.SetEscrow(&p.Status.Cells[0].AdmissionHistory, "stopped", 1, stamp)
			quota.Summarize(p)
			if err := l.client.Status().Update(t.Context(), p); err != nil {
				return err.Error()
			}
			return ""
		})
		return began
	}
	hold(1)
	l.wantReserved(1)
	if err := l.client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	began := hold(2) // the last sign of the holder
	l.eventually(func() string {
		p := l.protector()
		cell := &p.Status.Cells[0]
		if escrowed := quota.Escrowed(&cell.AdmissionHistory); escrowed > 0 && time.Since(began) < deadline+quota.EscrowLifetime {
			return "the deadline has not passed"
		} else if escrowed > 0 || cell.Aggregation.CountedReplicas != 1 {
			return fmt.Sprintf("%d pods are counted and %d reserved in advance, want 1 and none", cell.Aggregation.CountedReplicas, escrowed)
		}
		return ""
	})
	if took := time.Since(began); took < deadline+quota.EscrowLifetime {
		t.Errorf("the escrow ended after %s, want it to stay for %s", took, deadline+quota.EscrowLifetime)
	}
}
