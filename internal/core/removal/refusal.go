package removal

import (
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// HTTP status codes.
const (
	codeBadRequest      = 400
	codeForbidden       = 403
	codeNotFound        = 404
	codeTooManyRequests = 429
)

// later denies a removal for now. 429 makes kubectl drain and controllers retry. A Retry-After would make client-go retry ten times
// inside one call, invisible to the caller.
func later(verdict VerdictReason, message string) Answer {
	return Answer{Verdict: verdict, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeTooManyRequests,
		Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}
}

// Refuse returns the denial of a protector. For an eviction it has the cause by which clients recognize a denial by a
// PodDisruptionBudget.
func Refuse(charges []Charge, c Charge, verdict quota.Verdict, r Request) Answer {
	answer := later(VerdictReason(verdict.Outcome), refusal(c, verdict, r))
	if r.Operation == v1alpha1.OperationEvict {
		answer.Status.Details = &metav1.StatusDetails{Name: c.Key.Name, Group: v1alpha1.GroupVersion.Group, Kind: "podprotectors", Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf("The PodProtector %s needs %d available pods and has %d, with %d removals in progress.",
				c.Key, verdict.Budget.Floor, verdict.Budget.Available, verdict.Budget.Reserved),
		}}}
	}
	answer.Protectors, answer.Blames = names(charges), &c
	return answer
}

// IsOfDisruptionBudget reports whether an error is the denial of an eviction by a PodDisruptionBudget. Denials by protectors have the
// same cause, and name a protector.
func IsOfDisruptionBudget(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Group != v1alpha1.GroupVersion.Group
}

func refusal(c Charge, verdict quota.Verdict, r Request) string {
	b := verdict.Budget
	why, do := Reason(c, verdict)
	return fmt.Sprintf("Breakwater refuses to %s pod %q: PodProtector %s %s (floor %d, available %d, removals under way %d); %s.",
		r.deed(), r.PodName, place(c), why, b.Floor, b.Available, b.Reserved, do)
}

// Reason explains why a protector denies a removal, and the remedy. The floor of a protector with a pending decrease is in force
// although its workload may not exist any more, so the text explains how to confirm the decrease (rule 13).
func Reason(c Charge, verdict quota.Verdict) (why, do string) {
	why, do = reason(c, verdict)
	advice := brake.Advice(c.Protector)
	switch {
	case advice == "":
		return why, do
	case verdict.Outcome == quota.RefusedNoBudget:
		return why, advice // further pods may never become available
	default:
		return why, do + "; " + advice
	}
}

func reason(c Charge, verdict quota.Verdict) (why, do string) {
	switch verdict.Outcome {
	case quota.RefusedDomainLoss:
		why, do = fatal(verdict.Loss, c.Unlocated)
	case quota.RefusedFull:
		why = "has as many removals under way as its maxConcurrentLag allows"
		do = "try again when the aggregators have seen them"
	case quota.RefusedUpdates:
		why = "has as many pods of this cell under update as it can keep"
		do = "try again when some of them are available again"
	case quota.RefusedNeverAggregated:
		why = "has never been aggregated in this cell"
		do = "check that an aggregator runs for the cell and try again"
	case quota.RefusedDraining:
		why = "waits for earlier removals in this cell, which is being taken out of service"
		do = "delete the webhook configuration of this cluster once the Cell is gone"
	case quota.RefusedFloorUnknown:
		why = "does not know how many pods are expected, which its floor is reckoned from"
		do = "set spec.expectedReplicas, or give minAvailable as a number"
	case quota.RefusedVanished:
		why = "is gone although nobody has released it, and stays in force"
		do = "try again when the generator has restored it or it was created again, and to end it delete it then, or " + wayOut
	case quota.RefusedRestored:
		why = "was restored, or its core cluster was, and not all of its cells are counted anew"
		do = "try again when the admission deadline of the cells has passed and their aggregators have written, or " + wayOut
	case quota.RefusedNameless:
		why = "cannot reserve the removal of a pod without a UID"
		do = "this is a fault of the review, please report it"
	default:
		why = "would have fewer pods available than its floor"
		do = "try again when more pods are available, or lower the floor where it is declared"
	}
	return why, do
}

// fatal describes the domain loss that would violate the floor.
func fatal(loss *quota.DomainLoss, unlocated error) (why, do string) {
	domain := fmt.Sprintf("domain %q of %s", loss.Name, loss.TopologyKey)
	switch {
	case loss.TopologyKey == v1alpha1.TopologyKeyCell:
		domain = fmt.Sprintf("cell %q", loss.Name)
	case loss.Kind == quota.DomainOther:
		domain = "one of the smaller domains of " + loss.TopologyKey
	case loss.Kind == quota.DomainUnknown:
		domain = "a domain of " + loss.TopologyKey + " that nobody knows"
	}
	why = fmt.Sprintf("would be sure of no more than %d pods if %s were lost, which has up to %d", loss.Left, domain, loss.Pods)
	if loss.Unknown > 0 {
		why += fmt.Sprintf(", and it is not known where %d pods are", loss.Unknown)
	}
	if loss.PodUnknown && unlocated != nil {
		why += ", and not where this one is, since " + unlocated.Error()
	}
	return why, "remove pods of that domain first, try again when more are available elsewhere, turn spec.spread.tolerateDomainLoss off " +
		"where it is declared, or annotate the pod with " + v1alpha1.AnnotationForceDelete + "=true"
}

// deed returns the denied operation as a verb.
func (r Request) deed() string {
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

func place(c Charge) string { return fmt.Sprintf("%s in core cluster %q", c.Key, c.Core) }

const wayOut = "in an emergency label the namespace " + v1alpha1.LabelExempt + "=true in this cluster to remove pods unguarded"

// RefuseUnreachable denies a removal that could not be reserved with a protector, and gives the reason.
func RefuseUnreachable(charges []Charge, c Charge, r Request, reason string) Answer {
	answer := later(VerdictUnreachable, fmt.Sprintf(
		"Breakwater refuses to %s pod %q: that could not be reserved with PodProtector %s (%s); try again, or %s.",
		r.deed(), r.PodName, place(c), reason, wayOut))
	answer.Protectors, answer.Blames = names(charges), &c
	return answer
}

// RefuseUnknown denies a removal while the protectors of the pod cannot be determined.
func RefuseUnknown(r Request, err error) Answer {
	return later(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since it is not known who protects it: %v; try again, or %s.",
		r.deed(), r.PodName, err, wayOut))
}

// RefuseUnreadablePod denies the removal of a pod that cannot be read.
func RefuseUnreadablePod(cell string, r Request, err error) Answer {
	return later(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since the pod cannot be read from cell %q: %v; try again, or %s.",
		r.deed(), r.PodName, cell, err, wayOut))
}

// RefuseNoPod returns the API server's own answer for a pod that does not exist: 404. The webhook does not leave the answer to the
// API server. A pod of that name may have been created since, or the webhook's kubeconfig of the cell may point to another cluster,
// and the pod exists.
func RefuseNoPod(cell string, r Request) Answer {
	return Answer{Verdict: VerdictNoPod, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeNotFound, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("Breakwater finds no pod %q in namespace %q of cell %q.", r.PodName, r.Namespace, cell),
	}}
}

// RefuseChangedPod denies a removal whose review shows labels that differ from the pod's in its cell: other protectors may cover the
// pod.
func RefuseChangedPod(cell string, r Request) Answer {
	return later(VerdictUnknown, fmt.Sprintf(
		"Breakwater refuses to %s pod %q, since its labels in cell %q are not those of the request; try again, or %s.",
		r.deed(), r.PodName, cell, wayOut))
}

// RefuseUnknownCell denies a removal in an unknown cell.
func RefuseUnknownCell(cell string) Answer {
	return Answer{Verdict: VerdictUnknownCell, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("Breakwater knows no cell %q: no core cluster has a Cell of that name with a kubeconfigSecretRef, and the webhook no --cell; delete the webhook configuration of this cluster if the cell was removed, or %s.", cell, wayOut),
	}}
}

// RefuseMalformed denies a malformed review.
func RefuseMalformed(err error) Answer {
	return Answer{Verdict: VerdictMalformed, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: codeBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: fmt.Sprintf("Breakwater cannot understand the review: %v.", err),
	}}
}
