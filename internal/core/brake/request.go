package brake

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Request asks whether a large decrease of a protector may take effect.
type Request struct {
	Protector *v1alpha1.PodProtector
	// Cause says what asks for it, as a clause: `Deployment "web" was deleted`.
	Cause string
	// Effect says what it does, as an infinitive: "release the floor of 8".
	Effect string
	// Source is the workload, whose annotations can confirm; nil if it does not exist.
	Source metav1.Object
	// Deleted is the object whose deletion is the cause, for which cascades are looked for; nil if nothing was deleted.
	Deleted metav1.Object
	// Cascade says why the deletion is known to be one of a cascade, as "its CustomResourceDefinition is being deleted"; empty if it
	// is to be found out.
	Cascade string
}

// CoreBudget is the name of the budget of all protectors whose policy has none of its own.
const CoreBudget = "core"

// BudgetOf is the name of the budget that a protector belongs to, and its limits. The policy counts as it was recorded with the
// protector: an edit that loosens the limits and lowers the floors at once does not decide about itself.
func BudgetOf(p *v1alpha1.PodProtector, defaults Limits) (budget string, limits Limits) {
	origin, err := policy.OriginOf(p)
	if err != nil {
		return CoreBudget, defaults
	}
	limits, own := defaults.With(origin.LargeDecreases)
	if !own {
		return CoreBudget, limits
	}
	kind, name, _ := strings.Cut(origin.Policy, "/")
	if kind == policy.ClusterPolicy {
		return kind + "." + name, limits
	}
	return kind + "." + p.Namespace + "." + name, limits
}

// PendingOf is the recorded decrease of a protector; ok is false if none is pending.
func PendingOf(p *v1alpha1.PodProtector) (pending Pending, ok bool) {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Pending{}, false
	}
	return Pending{Protector: p.UID, Since: c.LastTransitionTime.Time, Cascade: c.Reason == v1alpha1.ReasonCascade}, true
}

// The parts of a message that DecreaseOf finds its cause and its effect by.
const (
	whichWould = ", which would "
	butCascade = ", but "
)

// Message words the condition of a pending decrease. It does not change with the number of others, so that it is written once.
func Message(r Request, reason string, limits Limits, cascade string) string {
	asks := Decrease{Cause: r.Cause, Effect: r.Effect}.Asks()
	switch reason {
	case v1alpha1.ReasonQuietPeriod:
		return fmt.Sprintf("%s. That takes effect after a quiet period of %s, unless it is one of many.", asks, limits.Quiet)
	case v1alpha1.ReasonCascade:
		return fmt.Sprintf("%s%s%s: a cascade is not taken for a decision. The floor stays in force until someone confirms. %s",
			asks, butCascade, cascade, HowToConfirm(r.Protector))
	default:
		return fmt.Sprintf("%s. The floor stays in force, because more large decreases are pending than the limit allows (%s within %s). "+
			"%s Otherwise it takes effect when the limit allows it, after %s at the earliest.",
			asks, limits.text(), limits.Window, HowToConfirm(r.Protector), limits.Window)
	}
}

func (l Limits) text() string {
	return fmt.Sprintf("%d, or %d %% of the protectors", l.Count, l.Percent)
}

// HowToConfirm tells users how a pending decrease is confirmed.
func HowToConfirm(p *v1alpha1.PodProtector) string {
	return fmt.Sprintf("To confirm, run %q, or for all of the namespace "+
		"\"kubectl annotate namespace %s %s=true\".", Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
}
