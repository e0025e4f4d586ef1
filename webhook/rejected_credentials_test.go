package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// The token of a webhook is revoked while its watches of the core go on.
func TestRejectedCredentialsAreNamedInDenials(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 100)
	pod := l.pod("web-0")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "webhook"}}
	config := testplane.AsServiceAccount(t, l.config, l.namespace, account.Name, "cluster-admin")
	l.serve(func(s *replicaOptions) {
		s.cores[l.core], s.cell, s.probeInterval = config, config, 100*time.Millisecond
	}).guard()
	for claim, dryRun := range dryRuns() {
		if err := dryRun(l, pod); err != nil {
			t.Errorf("%s ends with %v while the token is valid, want it admitted", claim, err)
		}
	}
	if err := l.client.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	const cause = "its API server does not accept the credentials of the webhook"
	inCore, inCell := `in core cluster "core" (`+cause+")", `cannot be read from cell "`+l.cell+`": `+cause
	// The API server caches tokens for some seconds. A dry run gets the answer of the removal (rule 8).
	for claim, remove := range dryRuns() {
		want := inCore
		if strings.Contains(claim, "eviction") {
			want = inCell
		}
		l.eventually(func() string {
			if err := remove(l, pod); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Sprintf("%s ends with %v, want a refusal with %q", claim, err, want)
			}
			return ""
		})
	}
	wantDenied(t, deletion(l, pod), "could not be reserved with PodProtector "+l.namespace+"/web "+inCore)
	wantDenied(t, eviction(l, pod), inCell)
	l.wantReserved("web", 0)
}
