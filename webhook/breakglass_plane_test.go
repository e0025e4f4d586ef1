package webhook_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// The audit log of the API server records the user of a break-glass removal, the overridden verdict and the reason.
func TestAuditLogRecordsBreakGlassReason(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	reasons := map[string]string{"web-0": "node 7 is on fire\nand so is \x1b[31mthe rack", "web-1": ""}
	for name, reason := range reasons {
		l.pod(name, func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true", v1alpha1.AnnotationForceReason: reason}
		})
	}
	l.serve().guard()
	for name := range reasons {
		if err := deletion(l, l.existing(name)); err != nil {
			t.Fatal(err)
		}
	}
	const from = "pods.breakwater.dev/"
	want := map[string]string{
		from + v1alpha1.AuditVerdict: "Forced", from + v1alpha1.AuditForcedOver: "NoBudget", from + v1alpha1.AuditProtectors: "core/" + l.namespace + "/web",
		from + v1alpha1.AuditCell: l.cell,
	}
	var got map[string]string
	for name := range reasons {
		l.eventually(func() string {
			var err error
			if got, err = auditOf(l.namespace, name, testplane.AuditLog(t)); err != nil {
				return err.Error()
			}
			return ""
		})
		if delete(want, from+v1alpha1.AuditForcedReason); name == "web-0" {
			want[from+v1alpha1.AuditForcedReason] = "node 7 is on fire and so is [31mthe rack"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("audit annotations of %s (-want +got):\n%s", name, diff)
		}
	}
}

// auditOf returns the annotations of Breakwater's webhooks for the deletion of a pod.
func auditOf(namespace, name, path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		event := auditv1.Event{}
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.ObjectRef == nil || event.ObjectRef.Namespace != namespace || event.ObjectRef.Name != name {
			continue
		}
		ours := map[string]string{}
		for key, value := range event.Annotations {
			if strings.HasPrefix(key, "pods.breakwater.dev/") {
				ours[key] = value
			}
		}
		return ours, nil
	}
	return nil, fmt.Errorf("the audit log has no deletion of %s yet", name)
}
