package removal

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// VerdictReason is the reason of an answer in one word, for audit annotations and metrics.
type VerdictReason string

// The reasons. Those of refusals by a protector are the outcomes of package quota.
const (
	VerdictUnguarded    VerdictReason = "Unguarded"    // not a removal that Breakwater guards, as a relabel that leaves the pod covered
	VerdictNoPod        VerdictReason = "NoPod"        // the pod does not exist in the cell
	VerdictNotAvailable VerdictReason = "NotAvailable" // the pod is not available, so its removal costs nothing
	VerdictUnprotected  VerdictReason = "Unprotected"  // no protector covers the pod
	VerdictOtherCell    VerdictReason = "OtherCell"    // the pod belongs to another cell of the cluster, or to none
	VerdictReserved     VerdictReason = "Reserved"     // admitted and charged, now or by an earlier attempt
	VerdictForced       VerdictReason = "Forced"       // admitted since somebody has broken the glass for the pod
	VerdictDryRun       VerdictReason = "DryRun"       // would be admitted; nothing was written
	VerdictMalformed    VerdictReason = "Malformed"    // the review cannot be understood
	VerdictUnknownCell  VerdictReason = "UnknownCell"  // no Cell with a kubeconfig, and no --cell, of that name
	VerdictUnknown      VerdictReason = "Unknown"      // what is needed to decide is not known
	VerdictUnreachable  VerdictReason = "Unreachable"  // the core cluster did not answer in time
)

// Answer is the answer to a review.
type Answer struct {
	Allowed bool
	Verdict VerdictReason
	// Operation is what was asked for; empty when the review was not read so far.
	Operation v1alpha1.Operation
	// Protectors that were asked, as core/namespace/name.
	Protectors []string
	// Status tells the client of a refusal; nil when allowed.
	Status *metav1.Status
	// Warnings are for the client of a removal that is admitted all the same.
	Warnings []string
	// Blames is the protector that refused; nil when none did.
	Blames *Charge
	// Forced is what was overridden to admit it; nil when nothing was.
	Forced *Override
}

// Override is a refusal that was not heeded.
type Override struct {
	Verdict VerdictReason
	// By is the protector that refused; nil when none did.
	By *Charge
	// Reason is why it was not heeded, as somebody says; empty when nobody does.
	Reason string
}

// Audit returns the audit annotations of the answer.
func (a Answer) Audit() map[string]string {
	audit := map[string]string{v1alpha1.AuditVerdict: string(a.Verdict)}
	if len(a.Protectors) > 0 {
		audit[v1alpha1.AuditProtectors] = strings.Join(a.Protectors, ",")
	}
	if a.Forced != nil {
		audit[v1alpha1.AuditForcedOver] = string(a.Forced.Verdict)
		if a.Forced.Reason != "" {
			audit[v1alpha1.AuditForcedReason] = a.Forced.Reason
		}
	}
	return audit
}

// OnTrial admits what is refused, and says so to the client: for a trial, in which nothing is protected.
func (a Answer) OnTrial() Answer {
	if a.Allowed {
		return a
	}
	a.Warnings = []string{"admitted, since Breakwater is on trial (--audit): " + a.Status.Message}
	a.Allowed, a.Status = true, nil
	return a
}

// BreakGlass admits what was refused, since somebody has broken the glass for the pod, and says why.
func (a Answer) BreakGlass(reason string) Answer {
	if !a.Allowed {
		a = Answer{Allowed: true, Protectors: a.Protectors, Forced: &Override{Verdict: a.Verdict, By: a.Blames}}
	}
	if a.Forced != nil { // or it may go anyway
		a.Verdict, a.Forced.Reason = VerdictForced, reason
	}
	return a
}

// Allow admits what costs no budget.
func Allow(verdict VerdictReason) Answer { return Answer{Allowed: true, Verdict: verdict} }

// Admit admits what protectors were asked for.
func Admit(verdict VerdictReason, charges []Charge) Answer {
	return Answer{Allowed: true, Verdict: verdict, Protectors: names(charges)}
}

func names(charges []Charge) []string {
	all := make([]string, 0, len(charges))
	for _, c := range charges {
		all = append(all, c.String())
	}
	return all
}
