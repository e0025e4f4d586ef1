package review

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// A dry run is decided by what is known. What another replica has reserved in advance is no budget for it (rule 8).
func TestDryRunUsesNoEscrow(t *testing.T) {
	p := memoryProtector("web", 10, 11)
	p.Status.Cells[0].Aggregation.KnowsEscrows = true
	p.Status.Cells[0].AdmissionHistory.Escrows = []v1alpha1.Escrow{{Holder: "one@other", Count: 1, Stamp: 1}}
	d := newMemoryFixture(t, p)
	pod := memoryPod("web-1")
	answer := d.decided(t.Context(), removal.Request{
		Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod), DryRun: true,
	})
	if answer.Allowed {
		t.Errorf("the dry run is answered with %+v, want a denial", answer)
	}
}
