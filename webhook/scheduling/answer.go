package scheduling

import (
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Reason is the reason for the answer to a review.
type Reason string

// The reasons. Rejected refuses the object, Injected changes it, and all others leave the object unchanged.
const (
	// Injected: a policy, or the spread of a protector, added something.
	Injected Reason = "Injected"
	// Unchanged: the object has everything that its policies and protectors require, or contradicts the rest.
	Unchanged Reason = "Unchanged"
	// NoPolicy: no policy applies, and no protector requires anything.
	NoPolicy Reason = "NoPolicy"
	// Rejected: the object contradicts a policy whose conflictPolicy rejects conflicts.
	Rejected Reason = "Rejected"
	// OtherCell: the object belongs to another cell of the cluster, or to none.
	OtherCell Reason = "OtherCell"
	// Ignored: policies do not apply to the review: another kind, a subresource or a deletion.
	Ignored Reason = "Ignored"
	// UnknownCell: the webhook serves no such cell.
	UnknownCell Reason = "UnknownCell"
	// NotReady: this replica had not read policies and protectors yet.
	NotReady Reason = "NotReady"
	// NamespaceUnread: the labels of the namespace could not be read in time.
	NamespaceUnread Reason = "NamespaceUnread"
	// Invalid: the object cannot be decoded.
	Invalid Reason = "Invalid"
	// Failed: the webhook had an internal error.
	Failed Reason = "Failed"
)

// Answer is the decision about an object.
type Answer struct {
	Reason Reason
	// Result is the result of merging its policies.
	scheduling.Result
	// Err is the reason why policies were not applied; nil when they were, or when none applies.
	Err error
}

const (
	// maxWarnings limits the number of conflicts that a response warns of. maxWarning limits the bytes of each warning
	// and of the reason why policies were not applied. The API server truncates anything beyond that.
	maxWarnings = 5
	maxWarning  = 250
	// maxAudited is how many policies an audit annotation names.
	maxAudited = 20
)

// Response converts the answer to a response for the API server.
func (a Answer) Response() *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{
		Allowed: a.Denial == "", Warnings: a.warnings(), AuditAnnotations: map[string]string{"reason": string(a.Reason)},
	}
	if a.Err != nil {
		response.AuditAnnotations["why"] = truncate(a.Err.Error())
	}
	if names := a.injectingPolicies(); len(names) > 0 {
		response.AuditAnnotations["policies"] = strings.Join(names[:min(len(names), maxAudited)], ",")
	}
	if names := a.spreadingProtectors(); len(names) > 0 {
		response.AuditAnnotations["spreads"] = strings.Join(names[:min(len(names), maxAudited)], ",")
	}
	if a.Denial != "" {
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "Breakwater refuses: " + a.Denial,
		}
		return response
	}
	if a.Patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = a.Patch, &kind
	}
	return response
}

// injectingPolicies returns the names of the policies that added something.
func (a Answer) injectingPolicies() (names []string) {
	for _, outcome := range a.Outcomes {
		if len(outcome.Injected) > 0 {
			names = append(names, outcome.Core+"/"+outcome.String())
		}
	}
	return names
}

// spreadingProtectors returns the names of the protectors for whose spread something was added.
func (a Answer) spreadingProtectors() (names []string) {
	for _, spread := range a.Spreads {
		if len(spread.Injected) > 0 {
			names = append(names, spread.Core+"/"+spread.String())
		}
	}
	return names
}

// admitWithWarning turns a refusal into a warning: the object is stored as it was sent.
func admitWithWarning(response *admissionv1.AdmissionResponse) {
	if response.Allowed {
		return
	}
	response.Warnings = []string{truncate("admitted, since Breakwater is on trial (--audit): " + response.Result.Message)}
	response.Allowed, response.Result = true, nil
}

// warnings returns the warnings about what was not added to an object that is stored anyway.
func (a Answer) warnings() (warnings []string) {
	if a.Denial != "" {
		return nil
	}
	for _, outcome := range a.Outcomes {
		warnings = append(warnings, warningsOf(outcome.Policy, outcome.Conflicts)...)
	}
	for _, spread := range a.Spreads {
		warnings = append(warnings, warningsOf(spread.Protector, spread.Conflicts)...)
	}
	return limited(warnings, "more field", "in which policies or protectors were not applied")
}

// explanation returns what each policy and spread adds to an object, in their order, and which of their parts do not apply to an object of its
// kind. Only the response to a dry run has it.
func (a Answer) explanation() (lines []string) {
	if a.Err != nil {
		return []string{truncate("stored without scheduling policies: " + a.Err.Error())}
	}
	add := func(subject fmt.Stringer, effect *scheduling.Effect) {
		if len(effect.Injected) > 0 {
			lines = append(lines, truncate(subject.String()+" adds "+strings.Join(effect.Injected, ", ")))
		}
		lines = append(lines, warningsOf(subject, effect.Skipped)...)
	}
	for i := range a.Outcomes {
		add(a.Outcomes[i].Policy, &a.Outcomes[i].Effect)
	}
	for i := range a.Spreads {
		add(a.Spreads[i].Protector, &a.Spreads[i].Effect)
	}
	return limited(lines, "more line", "about policies and protectors")
}

// limited returns the first maxWarnings warnings, and how many there are more.
func limited(warnings []string, more, about string) []string {
	if n := len(warnings) - maxWarnings; n > 0 {
		return append(warnings[:maxWarnings], "and "+printable.Count(n, more)+" "+about)
	}
	return warnings
}

func warningsOf(subject fmt.Stringer, conflicts []scheduling.Omission) (warnings []string) {
	for _, conflict := range conflicts {
		warnings = append(warnings, truncate(subject.String()+" was not applied to "+conflict.String()))
	}
	return warnings
}

// truncate truncates a warning to maxWarning bytes, at a character boundary.
func truncate(warning string) string {
	if len(warning) <= maxWarning {
		return warning
	}
	return strings.ToValidUTF8(warning[:maxWarning-len("…")], "") + "…"
}
