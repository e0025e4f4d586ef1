package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// WaitForWebhooks waits until every webhook has received a protector of a pod of a cell. A new protector is not in force in a webhook until
// then: see docs/concepts/safety.md.
func (l *Fixture) WaitForWebhooks(cell storm.Cell, pod corev1.Pod) {
	l.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own process, on this machine
	}}
	defer client.CloseIdleConnections()
	review := l.newRemovalReview(pod)
	for _, webhook := range l.Breakwater.WebhookAddresses() {
		l.Eventually(func() string {
			verdict, err := askVerdict(l.Context(), client, "https://"+webhook+webhookconfig.RemovalPath(cell.Name), review)
			if err != nil {
				return err.Error()
			}
			if verdict == "Unprotected" || verdict == "" {
				return "the webhook at " + webhook + " has not received the protector: " + verdict
			}
			return ""
		})
	}
}

// newRemovalReview returns a dry-run review of the deletion of a pod.
func (l *Fixture) newRemovalReview(pod corev1.Pod) []byte {
	l.Helper()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	old, err := json.Marshal(&pod)
	l.Must(err)
	dry := true
	raw, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "heard", Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name, DryRun: &dry,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			OldObject: runtime.RawExtension{Raw: old},
		},
	})
	l.Must(err)
	return raw
}

// askVerdict sends a review to one webhook and returns the verdict in its audit annotations.
func askVerdict(ctx context.Context, client *http.Client, url string, review []byte) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return "", err
	}
	if answer.Response == nil {
		return "", nil
	}
	return answer.Response.AuditAnnotations[v1alpha1.AuditVerdict], nil
}
