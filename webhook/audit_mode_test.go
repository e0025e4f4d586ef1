package webhook_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestAuditModeAdmitsWithWarning(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 6)
	pods := l.pods(2)
	r := l.serve(func(s *replicaOptions) { s.server.Audit = true })
	if response := r.review(deleteReview(pods[0])); !response.Allowed || len(response.Warnings) > 0 {
		t.Errorf("a removal within the budget: %+v, want it admitted without a warning", response)
	}
	response := r.review(deleteReview(pods[1]))
	if !response.Allowed || response.Result != nil {
		t.Fatalf("a removal beyond the budget: %+v, want it admitted", response)
	}
	if len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "--audit") || !strings.Contains(response.Warnings[0], "fewer pods available than its floor") {
		t.Errorf("warnings %q, want one with the reason of the refusal", response.Warnings)
	}
	if got := response.AuditAnnotations[v1alpha1.AuditVerdict]; got != "NoBudget" {
		t.Errorf("verdict %q in the audit log, want NoBudget", got)
	}
	l.wantReserved("web", 1)
}
