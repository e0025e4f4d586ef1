package webhook_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// The API server's audit log records, for each refusal, the removal, the protectors and the user.
func TestAuditLogRecordsDenials(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	l.protect("all", 1, 1)
	first, second := l.pod("web-0"), l.pod("web-1")
	forced := l.pod("web-2", func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true", v1alpha1.AnnotationForceReason: "fire"}
	})
	l.serve().guard()
	wantDenied(t, deletion(l, first))
	wantDenied(t, eviction(l, second))
	if err := deletion(l, forced); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"web-0 Delete NoBudget all,web forced=false", "web-1 Evict NoBudget all,web forced=false", `web-2 Delete NoBudget all,web forced=true fire`,
	}
	l.eventually(func() string {
		raw, err := os.ReadFile(testplane.AuditLog(t))
		if err != nil {
			return err.Error()
		}
		var got []string
		for line := range bytes.Lines(raw) {
			d, ok, err := denial.ParseAudit(line)
			if err != nil || !ok || d.Namespace != l.namespace {
				continue
			}
			if d.Cell != l.cell || d.User == "" || d.Core != "core" || !d.Forced && !strings.HasPrefix(d.Message, "Breakwater refuses to remove pod") {
				t.Fatalf("%+v", d)
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s forced=%v %s", strings.Join(d.Pods, ","), d.Operation, d.Verdict, d.Protector, d.Forced, d.Reason)))
		}
		slices.Sort(got)
		return cmp.Diff(want, got)
	})
}
