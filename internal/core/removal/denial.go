package removal

import (
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// HTTP status codes.
const (
	codeBadRequest      = 400
	codeForbidden       = 403
	codeNotFound        = 404
	codeConflict        = 409
	codeTooManyRequests = 429
)

// tooManyRequests denies a removal for now. 429 makes kubectl drain and controllers retry. A Retry-After would make client-go retry ten times
// inside one call, invisible to the caller.
func tooManyRequests(verdict VerdictReason, message string) Answer {
	return Answer{Verdict: verdict, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeTooManyRequests,
		Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}
}

// Deny returns the denial of a protector. For an eviction it has the cause by which clients recognize a denial by a
// PodDisruptionBudget.
func Deny(charges []Charge, c Charge, verdict quota.Verdict, r Request) Answer {
	answer := tooManyRequests(VerdictReason(verdict.Outcome), denialMessage(c, verdict, r))
	if r.Operation == v1alpha1.OperationEvict {
		answer.Status.Details = &metav1.StatusDetails{Name: c.Key.Name, Group: v1alpha1.GroupVersion.Group, Kind: "podprotectors", Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf("The PodProtector %s needs %s and has %d, with %s in progress.",
				c.Key, printable.Count(verdict.Budget.Floor, "available pod"), verdict.Budget.Available, printable.Count(verdict.Budget.Reserved, "removal")),
		}}}
	}
	answer.Protectors, answer.DeniedBy = chargeNames(charges), &c
	return answer
}

// IsDisruptionBudgetDenial reports whether an error is the denial of an eviction by a PodDisruptionBudget. Denials by protectors have the
// same cause, and name a protector.
func IsDisruptionBudgetDenial(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Group != v1alpha1.GroupVersion.Group
}

func denialMessage(c Charge, verdict quota.Verdict, r Request) string {
	b := verdict.Budget
	why, remedy := DenialReason(c, verdict)
	if verdict.Outcome == quota.DeniedVanished || verdict.Outcome == quota.DeniedRestored {
		remedy += ", or " + forceHint(r)
	}
	remedy += ownerAdvice(verdict.Outcome, r)
	return fmt.Sprintf("Breakwater refuses to %s pod %q: PodProtector %s %s (floor %d, available %d, removals under way %d); %s.",
		r.verb(), r.PodName, describeCharge(c), why, b.Floor, b.Available, b.Reserved, remedy)
}

// GarbageCollector is the user name of the garbage collector, where the Kubernetes controllers have service accounts of their own.
const GarbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

// ownerAdvice returns what to do about a pod that the garbage collector removes because of its owner. A new owner of the same name recovers only
// when it can adopt the pod. It returns "" for other clients and denials.
func ownerAdvice(outcome quota.Outcome, r Request) string {
	if r.User != GarbageCollector || outcome != quota.DeniedNoBudget {
		return ""
	}
	owner := r.Controller()
	if owner == nil {
		return ""
	}
	return fmt.Sprintf("; its owner %s %q was deleted or is being deleted: if that is an accident, create it again, and see with "+
		"kubectl breakwater adopt which pods it can adopt", owner.Kind, owner.Name)
}

// DenialReason explains why a protector denies a removal, and the remedy. The floor of a protector with a pending decrease is in force
// although its workload may not exist any more, so the text explains how to confirm the decrease (rule 13).
func DenialReason(c Charge, verdict quota.Verdict) (why, remedy string) {
	why, remedy = denialReason(c, verdict)
	advice := brake.DenialAdvice(c.Protector)
	switch {
	case advice == "":
		return why, remedy
	case verdict.Outcome == quota.DeniedNoBudget:
		return why, advice // further pods may never become available
	default:
		return why, remedy + "; " + advice
	}
}

func denialReason(c Charge, verdict quota.Verdict) (why, remedy string) {
	switch verdict.Outcome {
	case quota.DeniedDomainLoss:
		why, remedy = explainDomainLoss(verdict.Loss, c.DomainErr)
	case quota.DeniedFull:
		why = "has as many removals under way as its maxConcurrentLag allows"
		remedy = "try again when the aggregators have seen them"
	case quota.DeniedUpdates:
		why = "has the maximum number of pods under update in this cell"
		remedy = "try again when some of them are available again"
	case quota.DeniedNeverAggregated:
		why = "has never been aggregated in this cell"
		remedy = "check that an aggregator runs for the cell and try again"
	case quota.DeniedDraining:
		why = "waits for earlier removals in this cell, which is being taken out of service"
		remedy = "delete the webhook configuration of this cluster once the Cell is deleted"
	case quota.DeniedFloorUnknown:
		why = "cannot compute its floor, because the number of expected pods is unknown"
		remedy = "set spec.expectedReplicas, or set minAvailable to a number"
	case quota.DeniedVanished:
		why = "no longer exists although it was not released, and stays in force"
		remedy = "try again when the generator has restored it or you have created it again, or delete it then to end its protection"
	case quota.DeniedRestored:
		why = "was restored, or its core cluster was, and not all of its cells have been counted again"
		remedy = "try again when the admission deadline of the cells has passed and their aggregators have written"
	case quota.DeniedNameless:
		why = "cannot reserve the removal of a pod without a UID"
		remedy = "the review is malformed: report this as a bug"
	case quota.DeniedShared:
		why = "is just moving between the core cluster and its share in this cell"
		remedy = "try again"
	default:
		why = "would have fewer pods available than its floor"
		remedy = "try again when more pods are available, or lower the floor where it is declared"
		if by := declarer(c.Protector); by != "" {
			remedy += " (" + by + ")"
		}
		if of := c.Protector.Spec.ShareOf; of != nil {
			why = fmt.Sprintf("would have fewer pods available in cell %q than its share of the floor of PodProtector %q", of.Cell, of.Name)
			remedy = "try again: other cells give up budget if they have any, and the core cluster is reachable"
		}
	}
	return why, remedy
}

// explainDomainLoss describes the domain loss that would violate the floor.
func explainDomainLoss(loss *quota.DomainLoss, domainErr error) (why, remedy string) {
	domain := fmt.Sprintf("domain %q of %s", loss.Name, loss.TopologyKey)
	switch {
	case loss.TopologyKey == v1alpha1.TopologyKeyCell:
		domain = fmt.Sprintf("cell %q", loss.Name)
	case loss.Kind == quota.DomainOther:
		domain = "one of the smaller domains of " + loss.TopologyKey
	case loss.Kind == quota.DomainUnknown:
		domain = "an unknown domain of " + loss.TopologyKey
	}
	why = fmt.Sprintf("could be left with only %s if %s were lost, which has up to %d", printable.Count(loss.Left, "pod"), domain, loss.Pods)
	if loss.Unknown > 0 {
		why += fmt.Sprintf(", and the domain of %s is unknown", printable.Count(loss.Unknown, "pod"))
	}
	if loss.PodUnknown && domainErr != nil {
		why += ", and the domain of this pod is unknown, since " + domainErr.Error()
	}
	return why, "remove pods of that domain first, try again when more are available elsewhere, turn spec.spread.tolerateDomainLoss off " +
		"where it is declared, or annotate the pod with " + v1alpha1.AnnotationForceDelete + "=true"
}

// verb returns the denied operation as a verb.
func (r Request) verb() string {
	switch r.Operation {
	case v1alpha1.OperationUpdate:
		return "update"
	case v1alpha1.OperationResize:
		return "resize"
	case v1alpha1.OperationRelabel:
		return "relabel"
	default:
		return "remove"
	}
}

func describeCharge(c Charge) string { return fmt.Sprintf("%s in core cluster %q", c.Key, c.Core) }

// ForceCommand returns the command that removes one pod whatever its protectors decide. It runs in the cluster of the pod.
func ForceCommand(r Request) string {
	return fmt.Sprintf("kubectl breakwater force pod/%s -n %s --reason TEXT", r.PodName, r.Namespace)
}

// forceHint names the narrowest way to remove a pod that is refused: it removes this pod, and is charged and audited.
func forceHint(r Request) string {
	return "in an emergency force this pod alone, in this cluster: " + ForceCommand(r)
}

// exemptHint names the way to remove pods where the webhook cannot see that one is forced.
const exemptHint = "in an emergency label the namespace " + v1alpha1.LabelExempt + "=true in this cluster to remove pods unguarded"

// DenyUnreachable denies a removal that could not be reserved with a protector, and gives the reason.
func DenyUnreachable(charges []Charge, c Charge, r Request, reason string) Answer {
	return denyUnreserved(charges, c, r, fmt.Sprintf("the removal could not be reserved with PodProtector %s (%s)", describeCharge(c), reason))
}

// DenySilent denies a removal that could not be reserved with a protector, because its core does not answer. The reason names the core.
func DenySilent(charges []Charge, c Charge, r Request, reason string) Answer {
	return denyUnreserved(charges, c, r, fmt.Sprintf("%s, so the removal could not be reserved with PodProtector %s", reason, c.Key))
}

func denyUnreserved(charges []Charge, c Charge, r Request, why string) Answer {
	answer := tooManyRequests(VerdictUnreachable, fmt.Sprintf(
		"Breakwater refuses to %s pod %q: %s; try again, or %s.", r.verb(), r.PodName, why, forceHint(r)))
	answer.Protectors, answer.DeniedBy = chargeNames(charges), &c
	return answer
}

// DenyUnknown denies a removal while the protectors of the pod cannot be determined.
func DenyUnknown(r Request, err error) Answer {
	return tooManyRequests(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since its protectors cannot be determined: %v; try again, or %s.",
		r.verb(), r.PodName, err, forceHint(r)))
}

// DenyUnreadablePod denies the removal of a pod that cannot be read.
func DenyUnreadablePod(cell string, r Request, err error) Answer {
	return tooManyRequests(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since "+OfUnreadPod+"%q: %v; try again, or %s.",
		r.verb(), r.PodName, cell, err, exemptHint))
}

// DenyUnrecorded denies a removal without a grace period that could not be recorded in its cell for node guards.
func DenyUnrecorded(cell string, r Request, reason string) Answer {
	return tooManyRequests(VerdictUnrecorded, fmt.Sprintf(
		"Breakwater refuses to %s pod %q without a grace period, since node guards must know of it and it could not be recorded in cell %q (%s); "+
			"try again, use a grace period of at least 1 s, or %s.",
		r.verb(), r.PodName, cell, reason, exemptHint))
}

// DenyNoPod returns the API server's own answer for a pod that does not exist: 404. The webhook does not leave the answer to the
// API server. A pod of that name may have been created since, or the webhook's kubeconfig of the cell may point to another cluster,
// and the pod exists.
func DenyNoPod(cell string, r Request) Answer {
	return Answer{Verdict: VerdictNoPod, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeNotFound, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("Breakwater finds no pod %q in namespace %q of cell %q.", r.PodName, r.Namespace, cell),
	}}
}

// Fragments of refusals by which kubectl breakwater doctor knows that removals of pods that exist are refused as well.
const (
	// OfCore precedes why removals cannot be reserved in a core. Only dry runs about pods that do not exist say it.
	OfCore = "Removals cannot be reserved: "
	// OfUnreadPod precedes the name of a cell whose pods cannot be read.
	OfUnreadPod = "the pod cannot be read from cell "
)

// DenyNoPodOfDryRun is DenyNoPod for a dry run while removals cannot be reserved in a core, for a reason.
func DenyNoPodOfDryRun(cell string, r Request, reason string) Answer {
	answer := DenyNoPod(cell, r)
	answer.Status.Message += " " + OfCore + reason + "."
	return answer
}

// DenyChangedPod denies a removal whose review shows labels that differ from the pod's in its cell: other protectors may cover the
// pod.
func DenyChangedPod(cell string, r Request) Answer {
	return tooManyRequests(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since its labels in cell %q are not those of the request; try again, or %s.",
		r.verb(), r.PodName, cell, exemptHint))
}

// DenyUnknownCell denies a removal in an unknown cell.
func DenyUnknownCell(cell string) Answer {
	return Answer{Verdict: VerdictUnknownCell, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("Breakwater does not know cell %q: no core cluster has a Cell of that name with a kubeconfigSecretRef, and the webhook has "+
			"no --cell for it; delete the webhook configuration of this cluster if the cell was removed, or %s.", cell, exemptHint),
	}}
}

// DenyMalformed denies a malformed review.
func DenyMalformed(err error) Answer {
	return Answer{Verdict: VerdictMalformed, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: fmt.Sprintf("Breakwater cannot parse the review: %v.", err),
	}}
}
