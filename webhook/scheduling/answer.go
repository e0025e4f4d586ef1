package scheduling

import (
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Reason is why a review was answered as it was.
type Reason string

// The reasons. Rejected refuses the object, Injected changes it, and all others leave it as it is.
const (
	// Injected has something added by a policy, or for the spread of a protector.
	Injected Reason = "Injected"
	// Unchanged has all that its policies and protectors ask for, or contradicts the rest.
	Unchanged Reason = "Unchanged"
	// NoPolicy has no policy, and no protector that asks for something.
	NoPolicy Reason = "NoPolicy"
	// Rejected contradicts a policy that rejects such.
	Rejected Reason = "Rejected"
	// OtherCell belongs to another cell of the cluster, or to none.
	OtherCell Reason = "OtherCell"
	// Ignored is a review that policies have nothing to do with: of another kind, a subresource, a deletion.
	Ignored Reason = "Ignored"
	// UnknownCell is of a cell that is none of the webhook's.
	UnknownCell Reason = "UnknownCell"
	// NotReady is a review that came before this replica knew policies and protectors.
	NotReady Reason = "NotReady"
	// NamespaceUnread is of a namespace whose labels could not be read in time.
	NamespaceUnread Reason = "NamespaceUnread"
	// Invalid cannot be read.
	Invalid Reason = "Invalid"
	// Failed is a fault of ours.
	Failed Reason = "Failed"
)

// Answer is what becomes of an object.
type Answer struct {
	Reason Reason
	// Result is what its policies make of it.
	scheduling.Result
	// Err is why they were not asked; nil when they were, or there was nothing to ask.
	Err error
}

const (
	// maxWarnings is how many conflicts a client is warned of, and maxWarning how many bytes each warning has, and the reason why policies
	// were not asked: an apiserver cuts what is more.
	maxWarnings = 5
	maxWarning  = 250
	// maxAudited is how many policies an audit annotation names.
	maxAudited = 20
)

// Response is the answer as an apiserver takes it.
func (a Answer) Response(review types.UID) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{
		UID: review, Allowed: a.Refusal == "", Warnings: a.warnings(), AuditAnnotations: map[string]string{"reason": string(a.Reason)},
	}
	if a.Err != nil {
		response.AuditAnnotations["why"] = cut(a.Err.Error())
	}
	if names := a.injecting(); len(names) > 0 {
		response.AuditAnnotations["policies"] = strings.Join(names[:min(len(names), maxAudited)], ",")
	}
	if names := a.spreading(); len(names) > 0 {
		response.AuditAnnotations["spreads"] = strings.Join(names[:min(len(names), maxAudited)], ",")
	}
	if a.Refusal != "" {
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "Breakwater refuses: " + a.Refusal,
		}
		return response
	}
	if a.Patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = a.Patch, &kind
	}
	return response
}

// injecting names the policies that have added something.
func (a Answer) injecting() (names []string) {
	for _, outcome := range a.Outcomes {
		if len(outcome.Injected) > 0 {
			names = append(names, outcome.Core+"/"+outcome.String())
		}
	}
	return names
}

// spreading names the protectors for whose spread something was added.
func (a Answer) spreading() (names []string) {
	for _, spread := range a.Spreads {
		if len(spread.Injected) > 0 {
			names = append(names, spread.Core+"/"+spread.String())
		}
	}
	return names
}

// admit softens a refusal: the object is stored as it was sent, and the client is told.
func admit(response *admissionv1.AdmissionResponse) {
	if response.Allowed {
		return
	}
	response.Warnings = []string{cut("admitted, since Breakwater is on trial (--audit): " + response.Result.Message)}
	response.Allowed, response.Result = true, nil
}

// warnings tell a client what was not added to an object that is stored all the same.
func (a Answer) warnings() (warnings []string) {
	if a.Refusal != "" {
		return nil
	}
	for _, outcome := range a.Outcomes {
		warnings = append(warnings, warningsOf(outcome.Policy, outcome.Conflicts)...)
	}
	for _, spread := range a.Spreads {
		warnings = append(warnings, warningsOf(spread.Protector, spread.Conflicts)...)
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings], fmt.Sprintf("and %d more fields in which policies or protectors were not heeded", more))
	}
	return warnings
}

func warningsOf(whom fmt.Stringer, conflicts []scheduling.Clash) (warnings []string) {
	for _, conflict := range conflicts {
		warnings = append(warnings, cut(whom.String()+" was not heeded in "+conflict.String()))
	}
	return warnings
}

// cut shortens a warning between characters.
func cut(warning string) string {
	if len(warning) <= maxWarning {
		return warning
	}
	return strings.ToValidUTF8(warning[:maxWarning-len("…")], "") + "…"
}
