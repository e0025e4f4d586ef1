package webhook

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/removal"
)

func TestMetricsAndVerdictsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(raw)
	registry := prometheus.NewRegistry()
	newMetrics(registry).watchWaiting("core", func() int { return 0 })
	descriptions := make(chan *prometheus.Desc, 100)
	registry.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		if name, _, _ := strings.Cut(rest, `"`); name == "" || !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not have %q", name)
		}
	}
	for _, verdict := range []removal.VerdictReason{
		removal.VerdictUnguarded, removal.VerdictNoPod, removal.VerdictNotAvailable, removal.VerdictUnprotected, removal.VerdictReserved, removal.VerdictDryRun, removal.VerdictMalformed,
		removal.VerdictUnknownCell, removal.VerdictUnknown, removal.VerdictUnreachable, removal.VerdictReason(quota.RefusedNoBudget), removal.VerdictReason(quota.RefusedDomainLoss), removal.VerdictReason(quota.RefusedFull),
		removal.VerdictReason(quota.RefusedNeverAggregated), removal.VerdictReason(quota.RefusedNameless),
	} {
		if !strings.Contains(docs, "`"+string(verdict)+"`") {
			t.Errorf("docs/metrics.md does not have the verdict %s", verdict)
		}
	}
}

// A client must not be able to make labels.
func TestReviewsOfUnknownCellsShareALabel(t *testing.T) {
	d := newDesk(t)
	for _, cell := range []string{"a", "b", "c"} {
		d.measure(t.Context(), cell, &admissionv1.AdmissionRequest{})
	}
	metrics := make(chan prometheus.Metric, 100)
	d.metrics.reviews.Collect(metrics)
	if len(metrics) != 1 {
		t.Errorf("%d time series for reviews of three unknown cells, want 1", len(metrics))
	}
}
