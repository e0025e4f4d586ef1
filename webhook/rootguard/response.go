package rootguard

import (
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// The reasons that the handler gives by itself. All of them allow the deletion.
const (
	// NotReady came before the PodProtectors of a core cluster were read.
	NotReady rootguard.Reason = "NotReady"
	// UnknownCluster is of a core or a cell that is none of the webhook's.
	UnknownCluster rootguard.Reason = "UnknownCluster"
	// Ignored is not a deletion of an object.
	Ignored rootguard.Reason = "Ignored"
	// Invalid cannot be read.
	Invalid rootguard.Reason = "Invalid"
	// Failed is a fault of the webhook.
	Failed rootguard.Reason = "Failed"
)

// responseOf is the answer as an apiserver takes it. A denial is 403: it does not pass by itself, so that no client should
// try again in a moment.
func responseOf(review types.UID, answer rootguard.Answer) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{
		UID: review, Allowed: answer.Reason != rootguard.Denied, AuditAnnotations: map[string]string{"reason": string(answer.Reason)},
	}
	if answer.Floors > 0 {
		response.AuditAnnotations["floors"], response.AuditAnnotations["pods"] = strconv.Itoa(answer.Floors), strconv.Itoa(answer.Pods)
	}
	switch answer.Reason {
	case rootguard.Warned:
		response.Warnings = []string{answer.Text}
	case rootguard.Denied:
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: answer.Text,
		}
	}
	return response
}
