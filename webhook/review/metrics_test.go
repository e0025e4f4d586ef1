package review

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestVerdictsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(raw)
	for _, verdict := range []removal.VerdictReason{
		removal.VerdictUnguarded, removal.VerdictOtherCell, removal.VerdictForced, removal.VerdictNoPod, removal.VerdictFailedPrecondition, removal.VerdictNotAvailable, removal.VerdictUnprotected, removal.VerdictReserved, removal.VerdictDryRun, removal.VerdictMalformed,
		removal.VerdictUnknownCell, removal.VerdictUnknown, removal.VerdictUnreachable, removal.VerdictReason(quota.DeniedNoBudget), removal.VerdictReason(quota.DeniedDomainLoss), removal.VerdictReason(quota.DeniedFull),
		removal.VerdictReason(quota.DeniedNeverAggregated), removal.VerdictReason(quota.DeniedNameless), removal.VerdictReason(quota.DeniedUpdates), removal.VerdictReason(quota.DeniedDraining),
		removal.VerdictReason(quota.DeniedFloorUnknown), removal.VerdictReason(quota.DeniedVanished), removal.VerdictReason(quota.DeniedRestored),
	} {
		if !strings.Contains(docs, "`"+string(verdict)+"`") {
			t.Errorf("docs/reference/metrics.md does not have the verdict %s", verdict)
		}
	}
}

// A client must not be able to create time series.
func TestReviewsCreateBoundedSeries(t *testing.T) {
	d, random := newMemoryFixture(t), rand.New(rand.NewPCG(7, 7))
	word := func(known ...string) string {
		if i := random.IntN(2 * len(known)); i < len(known) {
			return known[i]
		}
		return strconv.Itoa(random.Int())
	}
	for range 2000 {
		d.Review(t.Context(), word(memoryCell), &admissionv1.AdmissionRequest{
			Operation: admissionv1.Operation(word("DELETE", "CREATE", "UPDATE", "CONNECT")), SubResource: word("", "eviction", "resize", "status"),
			Kind:      metav1.GroupVersionKind{Group: word("", "policy"), Version: word("v1"), Kind: word("Pod", "Eviction")},
			Resource:  metav1.GroupVersionResource{Group: word(""), Version: word("v1"), Resource: word("pods")},
			Namespace: word("default"), Name: word("web"), UID: types.UID(word("u")),
			OldObject: runtime.RawExtension{Raw: []byte(word(`{"metadata":{"name":"x","namespace":"default"}}`, `{}`))},
		})
	}
	seen := map[string]map[string]bool{"cell": {}, "operation": {}, "verdict": {}}
	metrics := make(chan prometheus.Metric, 4000)
	d.metrics.reviews.Collect(metrics)
	close(metrics)
	for m := range metrics {
		told := &dto.Metric{}
		if err := m.Write(told); err != nil {
			t.Fatal(err)
		}
		for _, label := range told.Label {
			seen[label.GetName()][label.GetValue()] = true
		}
	}
	if len(seen["cell"]) != 2 || len(seen["operation"]) != 5 || len(seen["verdict"]) < 2 || len(seen["verdict"]) > 10 {
		t.Errorf("%d cells, the operations %v, the verdicts %v", len(seen["cell"]), seen["operation"], seen["verdict"])
	}
}
