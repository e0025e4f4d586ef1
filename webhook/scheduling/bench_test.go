package scheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// BenchmarkReview measures the review of a pod that ten of 1,000 policies select; the policies are for 100 teams. The pod
// has no protector, one without a spread, or one with a spread.
func BenchmarkReview(b *testing.B) {
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	of := &fakeCells{cores: []string{"core"}}
	h := &Handler{cells: of, policies: newPolicies(logr.Discard()), counts: newPolicyCounts(time.Now), metrics: m, log: logr.Discard()}
	for i := range 1000 {
		p := policy(func(s *v1alpha1.PodSchedulingPolicySpec) {
			s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i % 100)}}
			s.NodeSelector = map[string]string{fmt.Sprint("label-", i): "x"}
		})
		p.Name = fmt.Sprint("policy-", i)
		h.policies.put("core", p)
	}
	h.policies.markSynced("core")
	h.policies.rebuild()
	request := creation(podKind, `{"metadata":{"generateName":"web-","labels":{"app":"web","team":"7"}},"spec":{"nodeSelector":{"zone":"a"},"containers":[{"name":"web","image":"web"}]}}`)
	spread := byZone("core", "web")
	audited := spread
	audited.Spread = nil
	for _, c := range []struct {
		covered    string
		protectors []scheduling.Protector
	}{{"no protector", nil}, {"audited", []scheduling.Protector{audited}}, {"spread", []scheduling.Protector{spread}}} {
		b.Run("protector="+c.covered, func(b *testing.B) {
			of.protectors = c.protectors
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				response := h.Review(b.Context(), "worker-1", request)
				took = append(took, time.Since(began))
				if response.Patch == nil || (response.AuditAnnotations["spreads"] != "") != (c.covered == "spread") {
					b.Fatalf("response %+v", response)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
