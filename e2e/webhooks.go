package e2e

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// WaitForWebhooks waits until every webhook has received a protector of a pod of a cell. A new protector is not in force in a webhook until
// then: see docs/concepts/safety.md.
func (l *Fixture) WaitForWebhooks(cell storm.Cell, pod corev1.Pod) {
	l.Helper()
	for _, webhook := range l.Breakwater.WebhookAddresses() {
		l.Eventually(func() string {
			answer, err := install.ReviewRemoval(l.Context(), webhook, cell.Name, pod)
			if err != nil {
				return err.Error()
			}
			if verdict := answer.AuditAnnotations[v1alpha1.AuditVerdict]; verdict == "Unprotected" || verdict == "" {
				return "the webhook at " + webhook + " has not received the protector: " + verdict
			}
			return ""
		})
	}
}
