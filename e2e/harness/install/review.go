package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// reviewTimeout bounds a review.
const reviewTimeout = 5 * time.Second

// ReviewRemoval asks one webhook, by its host:port, as a dry run if a pod of a cell may be deleted.
func ReviewRemoval(ctx context.Context, webhook, cell string, pod corev1.Pod) (*admissionv1.AdmissionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	dryRun := true
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "review-of-a-test", Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name, DryRun: &dryRun,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			OldObject: runtime.RawExtension{Raw: object},
		},
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+webhook+webhookconfig.RemovalPath(cell), bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	// The verification of certificates is up to the API servers.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // see above
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("decode the answer, %s: %w", response.Status, err)
	}
	if answer.Response == nil {
		return nil, errors.New("the answer has no response")
	}
	return answer.Response, nil
}
