package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// probe is a protector that selects no existing pod, so that its floor is never met.
const probe = "probe"

// awaitWebhookCaches returns when every webhook has received the protectors of a namespace. A webhook does not protect by a protector that it has
// not received, and that must not count against the storm that follows. A webhook that was cut off may receive one half a minute later. A
// core delivers its protectors in order, so a webhook that denies by the protector that was created last has received all.
func (s *Stage) awaitWebhookCaches(ctx context.Context, namespace string) error {
	last := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probe}}
	last.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": probe}}
	last.Spec.MinAvailable = v1alpha1.Pods(1)
	if err := s.protectors.Create(ctx, last); err != nil {
		return fmt.Errorf("create the probe's protector: %w", err)
	}
	for _, address := range s.Breakwater.WebhookAddresses() {
		if err := poll(ctx, func(ctx context.Context) error { return s.checkWebhookHasProtectors(ctx, address, namespace) }); err != nil {
			return fmt.Errorf("wait until the webhook at %s has the protectors: %w", address, err)
		}
	}
	return nil
}

// checkWebhookHasProtectors asks one webhook, as a dry run, if a pod of the probe may be removed. It returns an error unless the webhook denies.
func (s *Stage) checkWebhookHasProtectors(ctx context.Context, address, namespace string) error {
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probe, UID: probe, Labels: map[string]string{"app": probe}},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	object, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	dryRun := true
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: probe, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: namespace, Name: probe,
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Operation: admissionv1.Delete,
			OldObject: runtime.RawExtension{Raw: object}, DryRun: &dryRun,
		},
	})
	if err != nil {
		return err
	}
	answer, err := sendReview(ctx, fmt.Sprintf("https://%s/cells/%s/validate", address, s.Cells[0].Name), review)
	if err != nil {
		return err
	}
	if answer.Response == nil || answer.Response.Allowed {
		return fmt.Errorf("the webhook does not deny the probe: %+v", answer.Response)
	}
	return nil
}

func sendReview(ctx context.Context, url string, review []byte) (*admissionv1.AdmissionReview, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	// The verification of certificates is up to the API servers.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return nil, fmt.Errorf("decode the answer, %s: %w", response.Status, err)
	}
	return answer, nil
}
