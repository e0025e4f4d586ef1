package brake

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Request asks whether a large decrease of a protector may take effect.
type Request struct {
	Protector *v1alpha1.PodProtector
	// Cause describes the cause, as a clause: `Deployment "web" was deleted`.
	Cause string
	// Effect describes the effect, as an infinitive: "release the floor of 8".
	Effect string
	// Source is the workload. Its annotations can confirm the decrease. It is nil if the workload does not exist.
	Source metav1.Object
	// Deleted is the object whose deletion is the cause, which may be part of a cascade: the workload, its policy, or the protector. It is nil if no
	// object was deleted.
	Deleted metav1.Object
	// Cascade is the reason why the deletion is known to be part of a cascade, as "its CustomResourceDefinition is being deleted". It
	// is empty if the caller must still determine that.
	Cascade string
}

const wasDeleted = " was deleted"

// CauseOfDeletion returns the cause of a decrease that is due to the deletion of a workload, as "Deployment web". RevertsCascade recognizes it.
func CauseOfDeletion(workload string) string { return workload + wasDeleted }

// CoreBudget is the name of the budget that all protectors share whose policy has no budget of its own.
const CoreBudget = "core"

// BudgetOf returns the name and the limits of the budget that a protector belongs to. It uses the policy as recorded with the
// protector, so that an edit that loosens the limits and lowers the floors at once is not judged by its own limits.
func BudgetOf(p *v1alpha1.PodProtector, defaults Limits) (budget string, limits Limits) {
	origin, err := policy.OriginOf(p)
	if err != nil {
		return CoreBudget, defaults
	}
	limits, own := defaults.OverriddenBy(origin.LargeDecreases)
	if !own {
		return CoreBudget, limits
	}
	kind, name, _ := strings.Cut(origin.Policy, "/")
	if kind == policy.ClusterPolicy {
		return kind + "." + name, limits
	}
	return kind + "." + p.Namespace + "." + name, limits
}

// PendingOf returns the decrease that the protector's condition records. ok is false if none is pending.
func PendingOf(p *v1alpha1.PodProtector) (pending Pending, ok bool) {
	d, ok := DecreaseOf(p)
	if !ok {
		return Pending{}, false
	}
	return Pending{Protector: p.UID, Since: d.Since, Cascade: d.Reason == v1alpha1.ReasonCascade, Change: ChangeOf(p, d.Effect)}, true
}

// ChangeOf identifies a decrease of a protector by its effect, as "lower the floor from 8 to 2", and by the generation that it changes: the same
// decrease may be wanted again later. A release is the same before and after the deletion of the protector was requested, which raises the generation.
func ChangeOf(p *v1alpha1.PodProtector, effect string) string {
	generation := p.Generation
	if p.DeletionTimestamp != nil {
		generation--
	}
	return strconv.FormatInt(generation, 10) + " " + effect
}

// nextChange returns the change with the same effect at the next generation. ok is false if ChangeOf did not write the change.
func nextChange(change string) (next string, ok bool) {
	number, effect, _ := strings.Cut(change, " ")
	generation, err := strconv.ParseInt(number, 10, 64)
	return strconv.FormatInt(generation+1, 10) + " " + effect, err == nil
}

// These separators let DecreaseOf find the cause and the effect in a message.
const (
	effectSeparator  = ", which would "
	cascadeSeparator = ", but "
)

// Message returns the message of the condition of a pending decrease. It does not depend on the number of other pending decreases, so
// that the condition is written only once.
func Message(r Request, reason string, limits Limits, cascade string) string {
	asks := Decrease{Cause: r.Cause, Effect: r.Effect}.Summary()
	switch reason {
	case v1alpha1.ReasonQuietPeriod:
		return fmt.Sprintf("%s. That takes effect after a quiet period of %s, unless too many decreases are pending.", asks, limits.Quiet)
	case v1alpha1.ReasonCascade:
		return fmt.Sprintf("%s%s%s: a cascade is not evidence of intent. The floor stays in force until a user confirms. %s",
			asks, cascadeSeparator, cascade, HowToConfirm(r.Protector))
	default:
		return fmt.Sprintf("%s. The floor stays in force, because more large decreases are pending than the limit allows (%s within %s). "+
			"%s Otherwise it takes effect when the limit allows it, after %s at the earliest.",
			asks, limits.describe(), limits.Window, HowToConfirm(r.Protector), limits.Window)
	}
}

func (l Limits) describe() string {
	return fmt.Sprintf("%d, or %d %% of the protectors", l.Count, l.Percent)
}

// HowToConfirm returns instructions for confirming a pending decrease.
func HowToConfirm(p *v1alpha1.PodProtector) string {
	return fmt.Sprintf("To confirm, run %q, or for all of the namespace "+
		"\"kubectl annotate namespace %s %s=true\".", Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
}
