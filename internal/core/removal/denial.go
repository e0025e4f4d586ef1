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

// Cause is what a check found against a request.
type Cause int

// The causes. Each is the key of a text; several share a VerdictReason.
const (
	// CauseProtector: protector By decided so, as Decision says.
	CauseProtector Cause = iota + 1
	// CauseUnreachable: the removal could not be reserved with By. Detail is the error.
	CauseUnreachable
	// CauseSilent: the core of By is known not to answer. Detail names the core.
	CauseSilent
	// CauseProtectorsUnknown: the protectors of the pod cannot be determined, because of Detail (rule 9).
	CauseProtectorsUnknown
	// CauseUnreadPod: the pod cannot be read from its cell, because of Detail.
	CauseUnreadPod
	// CauseChangedPod: the review shows labels that differ from the pod's in its cell, so other protectors may cover it.
	CauseChangedPod
	// CauseUnrecorded: a removal without a grace period could not be recorded in its cell for node guards, because of Detail.
	CauseUnrecorded
	// CauseNoPod: the pod does not exist. Detail, if any, is why removals of pods that exist cannot be reserved either. Only dry runs have it.
	CauseNoPod
	// CausePrecondition: a precondition of the eviction fails, as Detail says.
	CausePrecondition
	// CauseUnknownCell: no core cluster has such a cell.
	CauseUnknownCell
	// CauseMalformed: the review cannot be parsed, because of Detail.
	CauseMalformed
)

// Denial is what a check found against a request, not yet in words. Decision.Answer words it.
type Denial struct {
	Cause Cause
	// By is the protector that denies, or with which the removal could not be reserved; nil for the other causes.
	By *Charge
	// Decision is the verdict of By. It is zero unless Cause is CauseProtector.
	Decision quota.Verdict
	// Detail completes the text: what could not be read, reached or parsed, and why.
	Detail string
}

// Verdict returns the reason of the denial as one word.
func (d Denial) Verdict() VerdictReason {
	switch d.Cause {
	case CauseProtector:
		return VerdictReason(d.Decision.Outcome)
	case CauseUnreachable, CauseSilent:
		return VerdictUnreachable
	case CauseUnrecorded:
		return VerdictUnrecorded
	case CauseNoPod:
		return VerdictNoPod
	case CausePrecondition:
		return VerdictFailedPrecondition
	case CauseUnknownCell:
		return VerdictUnknownCell
	case CauseMalformed:
		return VerdictMalformed
	default:
		return VerdictUnknown
	}
}

// answer words the denial for the client. asked are the protectors that were asked.
//
// Most denials are 429, which makes kubectl drain and controllers retry. A Retry-After would make client-go retry ten times inside one call,
// invisible to the caller. For a pod that does not exist, and for a failed precondition, it is the API server's own answer. The webhook does not
// leave that answer to the API server: a pod of that name may have been created since, or the webhook's kubeconfig of the cell may point to another
// cluster, and an admission without a reservation would not be safe.
func (d Denial) answer(cell string, r Request, asked []Charge) Answer {
	code, reason := int32(codeTooManyRequests), metav1.StatusReasonTooManyRequests
	switch d.Cause {
	case CauseNoPod:
		code, reason = codeNotFound, metav1.StatusReasonNotFound
	case CausePrecondition:
		code, reason = codeConflict, metav1.StatusReasonConflict
	case CauseUnknownCell:
		code, reason = codeForbidden, metav1.StatusReasonForbidden
	case CauseMalformed:
		code, reason = codeBadRequest, metav1.StatusReasonBadRequest
	default:
	}
	answer := Answer{
		Verdict: d.Verdict(), Operation: r.Operation, DeniedBy: d.By,
		Status: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: d.message(cell, r)},
	}
	if d.By != nil {
		answer.Protectors = chargeNames(asked)
	}
	if d.Cause == CauseProtector && r.Operation == v1alpha1.OperationEvict {
		answer.Status.Details = d.disruptionBudgetDetails()
	}
	return answer
}

// disruptionBudgetDetails returns the cause by which clients recognize the denial of an eviction by a PodDisruptionBudget.
func (d Denial) disruptionBudgetDetails() *metav1.StatusDetails {
	b := d.Decision.Budget
	return &metav1.StatusDetails{Name: d.By.Key.Name, Group: v1alpha1.GroupVersion.Group, Kind: "podprotectors", Causes: []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The PodProtector %s needs %s and has %d, with %s in progress.",
			d.By.Key, printable.Count(b.Floor, "available pod"), b.Available, printable.Count(b.Reserved, "removal")),
	}}}
}

// message returns the text of the denial.
func (d Denial) message(cell string, r Request) string {
	denies := fmt.Sprintf("Breakwater refuses to %s pod %q", r.verb(), r.PodName)
	switch d.Cause {
	case CauseProtector:
		return denialMessage(*d.By, d.Decision, r)
	case CauseUnreachable:
		return fmt.Sprintf("%s: the removal could not be reserved with PodProtector %s (%s); try again, or %s.",
			denies, describeCharge(*d.By), d.Detail, forceHint(r))
	case CauseSilent:
		return fmt.Sprintf("%s: %s, so the removal could not be reserved with PodProtector %s; try again, or %s.", denies, d.Detail, d.By.Key, forceHint(r))
	case CauseUnreadPod:
		return fmt.Sprintf("%s, since "+OfUnreadPod+"%q: %s; try again, or %s.", denies, cell, d.Detail, exemptHint)
	case CauseChangedPod:
		return fmt.Sprintf("%s, since its labels in cell %q are not those of the request; try again, or %s.", denies, cell, exemptHint)
	case CauseUnrecorded:
		return fmt.Sprintf("%s without a grace period, since node guards must know of it and it could not be recorded in cell %q (%s); "+
			"try again, use a grace period of at least 1 s, or %s.", denies, cell, d.Detail, exemptHint)
	case CauseNoPod:
		text := fmt.Sprintf("Breakwater finds no pod %q in namespace %q of cell %q.", r.PodName, r.Namespace, cell)
		if d.Detail != "" {
			text += " " + OfCore + d.Detail + "."
		}
		return text
	case CausePrecondition:
		return fmt.Sprintf("%s, since a precondition of the eviction fails: %s.", denies, d.Detail)
	case CauseUnknownCell:
		return fmt.Sprintf("Breakwater does not know cell %q: no core cluster has a Cell of that name with a kubeconfigSecretRef, and the webhook has "+
			"no --cell for it; delete the webhook configuration of this cluster if the cell was removed, or %s.", cell, exemptHint)
	case CauseMalformed:
		return fmt.Sprintf("Breakwater cannot parse the review: %s.", d.Detail)
	default:
		return fmt.Sprintf("%s, since its protectors cannot be determined: %s; try again, or %s.", denies, d.Detail, forceHint(r))
	}
}

// Fragments of denials by which kubectl breakwater doctor knows that removals of pods that exist are denied as well.
const (
	// OfCore precedes why removals cannot be reserved in a core. Only dry runs about pods that do not exist say it.
	OfCore = "Removals cannot be reserved: "
	// OfUnreadPod precedes the name of a cell whose pods cannot be read.
	OfUnreadPod = "the pod cannot be read from cell "
)

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
