package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// deleteReview returns the review that an API server sends for the deletion of a pod.
func deleteReview(pod *corev1.Pod) *admissionv1.AdmissionReview {
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("review-of-" + pod.Name), Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name,
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, OldObject: runtime.RawExtension{Raw: raw},
		},
	}
}

// reader returns a client that trusts the replica and presents certificates.
func (r *replica) reader(certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: r.authority.pool(), Certificates: certificates, MinVersion: tls.VersionTLS12,
	}}
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// post sends a body to the replica and returns the answer.
func (r *replica) post(ctx context.Context, path string, body io.Reader, certificates ...tls.Certificate) (int, string, error) {
	r.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.server.Address()+path, body)
	if err != nil {
		r.Fatal(err)
	}
	response, err := r.reader(certificates...).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// review posts a review with a timeout of 10 s, as an API server does, and returns the response.
func (r *replica) review(review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	r.Helper()
	return r.reviewCell(r.cell, review)
}

func (r *replica) reviewCell(cell string, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	r.Helper()
	return r.reviewAt("/cells/"+cell+"/validate?timeout=10s", review)
}

// reviewAt posts a review to a path with a query, and returns the response.
func (r *replica) reviewAt(path string, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	r.Helper()
	raw, err := json.Marshal(review)
	if err != nil {
		r.Fatal(err)
	}
	code, body, err := r.post(r.Context(), path, bytes.NewReader(raw))
	answer := &admissionv1.AdmissionReview{}
	if err == nil {
		err = json.Unmarshal([]byte(body), answer)
	}
	if err != nil || code != http.StatusOK || answer.Response == nil {
		r.Fatalf("answer %d %q, error %v", code, body, err)
	}
	if answer.APIVersion != review.APIVersion || answer.Kind != review.Kind || answer.Response.UID != review.Request.UID {
		r.Errorf("answer %s, want one to review %s", body, review.Request.UID)
	}
	return answer.Response
}

func TestAnswerHasAuditAnnotations(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 6)
	l.protect("other", 0, 6)
	pods := l.pods(2)
	r := l.serve()
	both := "core/" + l.namespace + "/other,core/" + l.namespace + "/web"
	for _, want := range []struct {
		pod     *corev1.Pod
		allowed bool
		verdict string
	}{{pods[0], true, "Reserved"}, {pods[0], true, "Reserved"}, {pods[1], false, "NoBudget"}} {
		response := r.review(deleteReview(want.pod))
		audit := response.AuditAnnotations
		if response.Allowed != want.allowed || audit[v1alpha1.AuditVerdict] != want.verdict || audit[v1alpha1.AuditProtectors] != both {
			t.Errorf("removal of %s: allowed %v with %v, want %v with %s by %s", want.pod.Name, response.Allowed, audit, want.allowed, want.verdict, both)
		}
	}
}

// One deletion by a client can cause several reviews.
func TestRepeatedRemovalIsChargedOnce(t *testing.T) {
	for _, threshold := range []int32{0, 1, 100} {
		t.Run(fmt.Sprint("compactThreshold ", threshold), func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 5, 8, compacted(threshold))
			pods := l.pods(4)
			r := l.serve()
			for range 3 {
				for _, pod := range pods[:3] {
					if response := r.review(deleteReview(pod)); !response.Allowed {
						t.Fatalf("removal of %s: %+v", pod.Name, response.Result)
					}
				}
			}
			l.wantReserved("web", 3)
			if response := r.review(deleteReview(pods[3])); response.Allowed {
				t.Error("a fourth removal was admitted, want a budget of 3")
			}
			l.wantReserved("web", 3)
		})
	}
}

func compacted(threshold int32) func(*v1alpha1.PodProtectorSpec) {
	return func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.CompactThreshold = &threshold }
}

func TestUnknownCellIsForbidden(t *testing.T) {
	l := newFixture(t)
	pod := l.pod("web-0")
	response := l.serve().reviewCell("elsewhere", deleteReview(pod))
	if response.Allowed || response.Result.Code != http.StatusForbidden || response.Result.Reason != metav1.StatusReasonForbidden {
		t.Fatalf("response %+v, want 403", response)
	}
	for _, part := range []string{`does not know cell "elsewhere"`, "--cell", v1alpha1.LabelExempt} {
		if !strings.Contains(response.Result.Message, part) {
			t.Errorf("message %q, want it to say %q", response.Result.Message, part)
		}
	}
}

func TestMalformedReviewsAreDenied(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	pod := l.pod("web-0")
	r := l.serve()
	edit := func(change func(*admissionv1.AdmissionReview)) string {
		review := deleteReview(pod)
		change(review)
		raw, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for claim, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"an empty body":                  {"", 400, "cannot read the review"},
		"no JSON":                        {"<html>", 400, "cannot read the review"},
		"half a review":                  {edit(func(*admissionv1.AdmissionReview) {})[:100], 400, "cannot read the review"},
		"a list":                         {"[]", 400, "cannot read the review"},
		"null":                           {"null", 400, "want an AdmissionReview of admission.k8s.io/v1 with a request"},
		"no request":                     {edit(func(r *admissionv1.AdmissionReview) { r.Request = nil }), 400, "with a request"},
		"an older API version":           {edit(func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }), 400, "want an AdmissionReview of admission.k8s.io/v1"},
		"no API version":                 {edit(func(r *admissionv1.AdmissionReview) { r.APIVersion = "" }), 400, "want an AdmissionReview of admission.k8s.io/v1"},
		"a huge body":                    {strings.Repeat(" ", 9<<20), 400, "too large"},
		"nesting without end":            {strings.Repeat("[", 1<<20), 400, "cannot read the review"},
		"no oldObject":                   {edit(func(r *admissionv1.AdmissionReview) { r.Request.OldObject.Raw = nil }), 200, "has no oldObject"},
		"an oldObject that is no object": {edit(func(r *admissionv1.AdmissionReview) { r.Request.OldObject.Raw = []byte(`"pod"`) }), 200, "oldObject of the deletion"},
		"an oldObject without a name":    {edit(func(r *admissionv1.AdmissionReview) { r.Request.OldObject.Raw = []byte(`{}`) }), 200, "names no pod"},
		"an eviction without a name": {edit(func(r *admissionv1.AdmissionReview) {
			r.Request.Operation, r.Request.SubResource, r.Request.Name = admissionv1.Create, "eviction", ""
		}), 200, "names no pod"},
	} {
		t.Run(claim, func(t *testing.T) {
			code, body, err := r.post(t.Context(), "/cells/"+l.cell+"/validate", strings.NewReader(test.body))
			if err != nil || code != test.status || !strings.Contains(body, test.want) {
				t.Fatalf("answer %d %q, error %v; want %d with %q", code, body, err, test.status, test.want)
			}
			if code != http.StatusOK {
				return
			}
			answer := &admissionv1.AdmissionReview{}
			if err := json.Unmarshal([]byte(body), answer); err != nil {
				t.Fatal(err)
			}
			if answer.Response.Allowed || answer.Response.Result.Code != http.StatusBadRequest ||
				answer.Response.AuditAnnotations[v1alpha1.AuditVerdict] != string(removal.VerdictMalformed) {
				t.Errorf("response %+v, want it refused with 400 as malformed", answer.Response)
			}
		})
	}
	l.wantReserved("web", 0)
}
