package review

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// BenchmarkReview measures reviews of a pod without protectors, of a refused removal, and of an admitted one, which is
// written to a core in memory.
func BenchmarkReview(b *testing.B) {
	for _, c := range []struct {
		app     string
		floor   int32
		verdict removal.VerdictReason
	}{{"other", 3, removal.VerdictUnprotected}, {"web", 3, "NoBudget"}, {"web", 1, removal.VerdictReserved}} {
		b.Run("verdict="+string(c.verdict), func(b *testing.B) {
			d := newMemoryFixture(b, memoryProtector("web", c.floor, 3))
			pod := memoryPod("web-0")
			pod.Labels["app"] = c.app
			raw, err := json.Marshal(pod)
			if err != nil {
				b.Fatal(err)
			}
			review := &admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
				Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: pod.Namespace, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw},
			}
			b.ReportAllocs()
			for b.Loop() {
				if answer := d.Review(b.Context(), memoryCell, review); answer.Verdict != c.verdict {
					b.Fatalf("%+v", answer)
				}
			}
		})
	}
}
