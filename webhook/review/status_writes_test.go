package review

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A core restricts the ServiceAccount of a cell to these writes (rule 15). A protector with floor 0 admits although its
// counts are void.
func TestWebhookWritesOnlyReservationsOfItsCell(t *testing.T) {
	p := memoryProtector("web", 0, 5)
	other := v1alpha1.PodProtectorCell{CellID: "other", Aggregation: v1alpha1.Aggregation{
		CountedReplicas: 7, CountedSpec: quota.CountedSpec(&p.Spec), TermVersion: "900",
	}}
	at := time.Now().Truncate(time.Second)
	for i := range 2 * quota.DefaultCompactThreshold {
		bucket := v1alpha1.Bucket{StartTime: metav1.NewMicroTime(at), Counter: 1, PodUID: types.UID(fmt.Sprint("uid-", i)), Operation: v1alpha1.OperationDelete}
		other.AdmissionHistory.Buckets = append(other.AdmissionHistory.Buckets, bucket)
	}
	own := *other.DeepCopy()
	own.CellID = memoryCell
	p.Status.Cells = []v1alpha1.PodProtectorCell{own, other}
	d := newMemoryFixture(t, p)
	d.restore()
	if answer := d.remove(t.Context(), memoryPod("web-0")); !answer.Allowed {
		t.Fatalf("answer %+v, want it allowed", answer)
	}
	stored := d.stored(t, "web").Status.Cells
	if diff := cmp.Diff(other, stored[1]); diff != "" {
		t.Errorf("the entry of another cell changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(own.Aggregation, stored[0].Aggregation); diff != "" {
		t.Errorf("the counts of its own cell changed (-want +got):\n%s", diff)
	}
	history := &stored[0].AdmissionHistory
	if got, want := quota.Open(history), 2*quota.DefaultCompactThreshold+1; got != want || len(history.Buckets) != quota.DefaultCompactThreshold+1 {
		t.Errorf("%d reservations in %d buckets, want %d in %d", got, len(history.Buckets), want, quota.DefaultCompactThreshold+1)
	}
}
