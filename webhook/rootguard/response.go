package rootguard

import (
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// The reasons that only the handler gives. All of them allow the deletion.
const (
	// NotReady: the PodProtectors of a core cluster have not been read yet.
	NotReady rootguard.Reason = "NotReady"
	// UnknownCluster: the webhook serves no such core or cell.
	UnknownCluster rootguard.Reason = "UnknownCluster"
	// Ignored: the request is not a deletion of an object.
	Ignored rootguard.Reason = "Ignored"
	// Invalid: the object cannot be decoded.
	Invalid rootguard.Reason = "Invalid"
	// Failed: the webhook had an internal error.
	Failed rootguard.Reason = "Failed"
)

// responseOf converts an answer to a response for the API server. A denial has status 403, because the cause does not
// pass by itself, so that no client should retry soon.
func responseOf(answer rootguard.Answer) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{
		Allowed: answer.Reason != rootguard.Denied, AuditAnnotations: map[string]string{"reason": string(answer.Reason)},
	}
	if answer.Floors > 0 {
		response.AuditAnnotations["floors"], response.AuditAnnotations["pods"] = strconv.Itoa(answer.Floors), strconv.Itoa(answer.Pods)
	}
	if answer.Shares > 0 {
		response.AuditAnnotations["shares"] = strconv.Itoa(answer.Shares)
	}
	switch {
	case answer.Reason == rootguard.Denied:
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: answer.Text,
		}
	case answer.Text != "":
		response.Warnings = []string{answer.Text}
	}
	return response
}
