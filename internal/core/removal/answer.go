package removal

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// VerdictReason is the reason of an answer, as one word for audit annotations and metrics.
type VerdictReason string

// The reasons. Those of denials by a protector are the outcomes of package quota.
const (
	VerdictUnguarded VerdictReason = "Unguarded" // not a removal that Breakwater guards, such as a relabel that leaves the pod covered
	VerdictNoPod     VerdictReason = "NoPod"     // the pod does not exist in the cell
	// VerdictFailedPrecondition: a precondition of the eviction does not fit the pod.
	VerdictFailedPrecondition VerdictReason = "FailedPrecondition"

	VerdictNotAvailable VerdictReason = "NotAvailable" // the pod is not available, so its removal consumes no budget
	VerdictUnprotected  VerdictReason = "Unprotected"  // no protector covers the pod
	VerdictOtherCell    VerdictReason = "OtherCell"    // the pod belongs to another cell of the cluster, or to none
	VerdictReserved     VerdictReason = "Reserved"     // admitted and charged, now or by an earlier attempt
	VerdictForced       VerdictReason = "Forced"       // admitted by break-glass
	VerdictDryRun       VerdictReason = "DryRun"       // would be admitted; nothing was written
	VerdictMalformed    VerdictReason = "Malformed"    // the review cannot be parsed
	VerdictUnknownCell  VerdictReason = "UnknownCell"  // there is neither a Cell of that name with a kubeconfig, nor a --cell
	VerdictUnknown      VerdictReason = "Unknown"      // information that is necessary for the decision is missing
	VerdictUnreachable  VerdictReason = "Unreachable"  // the core cluster did not answer in time
	VerdictUnrecorded   VerdictReason = "Unrecorded"   // the removal could not be recorded for node guards
)

// Answer is the answer to a review.
type Answer struct {
	Allowed bool
	Verdict VerdictReason
	// Operation is the requested operation. It is empty if the review could not be parsed that far.
	Operation v1alpha1.Operation
	// Protectors are the protectors that were asked, as core/namespace/name.
	Protectors []string
	// Status is the denial for the client. It is nil if the removal is allowed.
	Status *metav1.Status
	// Warnings are for the client of a removal that is admitted.
	Warnings []string
	// DeniedBy is the protector that denied the removal. It is nil if none did.
	DeniedBy *Charge
	// Overridden is the denial that was overridden to admit the removal. It is nil if there was none.
	Overridden *Override
}

// Override is an overridden denial.
type Override struct {
	Verdict VerdictReason
	// DeniedBy is the protector that denied the removal. It is nil if none did.
	DeniedBy *Charge
	// Reason is the user's reason for the override. It is empty if the user gave none.
	Reason string
}

// Audit returns the audit annotations of the answer.
func (a Answer) Audit() map[string]string {
	audit := map[string]string{v1alpha1.AuditVerdict: string(a.Verdict)}
	if len(a.Protectors) > 0 {
		audit[v1alpha1.AuditProtectors] = strings.Join(a.Protectors, ",")
	}
	if a.Overridden != nil {
		audit[v1alpha1.AuditForcedOver] = string(a.Overridden.Verdict)
		if a.Overridden.Reason != "" {
			audit[v1alpha1.AuditForcedReason] = a.Overridden.Reason
		}
	}
	return audit
}

// WithHelp adds the URL of a page that explains denials to a denial that clients may repeat.
func (a Answer) WithHelp(url string) Answer {
	if url == "" || a.Allowed || a.Status.Code != codeTooManyRequests {
		return a
	}
	status := *a.Status
	status.Message += " See " + url
	a.Status = &status
	return a
}

// AdmitInAuditMode admits a denied removal and warns the client. It is for a trial, in which nothing is protected.
func (a Answer) AdmitInAuditMode() Answer {
	if a.Allowed {
		return a
	}
	a.Warnings = []string{"admitted, since Breakwater is on trial (--audit): " + a.Status.Message}
	a.Allowed, a.Status = true, nil
	return a
}
