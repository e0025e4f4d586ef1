package disasters_test

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
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// createCountedProtector creates a protector and the given number of pods. It waits until the protector has its finalizer and is counted,
// and until all webhooks have received it.
func (l fixture) createCountedProtector(floor, pods int) {
	l.Helper()
	l.CreateProtector(floor)
	l.waitForFinalizer("web")
	l.CreateBarePods(l.Application(pods))
	l.waitForWebhooks()
}

// waitForWebhooks waits until every webhook has received the fixture's protector. After a disaster, the watch of a webhook may lag by
// seconds, and a new protector is not in force there until then: see docs/concepts/safety.md.
func (l fixture) waitForWebhooks() {
	l.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own process, on this machine
	}}
	defer client.CloseIdleConnections()
	cell := l.Cells[0]
	review := l.newReview(l.ExistingPods(cell)[0])
	for _, webhook := range l.Breakwater.WebhookAddresses() {
		l.Eventually(func() string {
			verdict, err := askVerdict(l.Context(), client, "https://"+webhook+webhookconfig.RemovalPath(cell.Name), review)
			if err != nil {
				return err.Error()
			}
			if verdict == "Unprotected" || verdict == "" {
				return "the webhook at " + webhook + " has not seen the protector: " + verdict
			}
			return ""
		})
	}
}

// newReview returns a dry-run review of the deletion of a pod.
func (l fixture) newReview(pod corev1.Pod) []byte {
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
