package brake

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
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
	origin, err := desired.OriginOf(p)
	if err != nil {
		return CoreBudget, defaults
	}
	limits, own := defaults.With(origin.LargeDecreases)
	if !own {
		return CoreBudget, limits
	}
	kind, name, _ := strings.Cut(origin.Policy, "/")
	if kind == desired.ClusterPolicy {
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

// Message words the condition of a pending decrease. It does not change with the number of others, so that it is written once.
func Message(r Request, reason string, limits Limits, cascade string) string {
	switch reason {
	case v1alpha1.ReasonQuietPeriod:
		return fmt.Sprintf("%s, which would %s. That takes effect after a quiet period of %s, unless it is one of many.", r.Cause, r.Effect, limits.Quiet)
	case v1alpha1.ReasonCascade:
		return fmt.Sprintf("%s, which would %s, but %s: a cascade is not taken for a decision. The floor stays in force until someone confirms. %s",
			r.Cause, r.Effect, cascade, HowToConfirm(r.Protector))
	default:
		return fmt.Sprintf("%s, which would %s. The floor stays in force, because more large decreases are pending than the limit allows (%s within %s). "+
			"%s Otherwise it takes effect when the limit allows it, after %s at the earliest.",
			r.Cause, r.Effect, limits.text(), limits.Window, HowToConfirm(r.Protector), limits.Window)
	}
}

func (l Limits) text() string {
	return fmt.Sprintf("%d, or %d %% of the protectors", l.Count, l.Percent)
}

// HowToConfirm tells users how a pending decrease is confirmed.
func HowToConfirm(p *v1alpha1.PodProtector) string {
	return fmt.Sprintf("To confirm, run \"kubectl breakwater release --pending -n %s %s\", or for all of the namespace "+
		"\"kubectl annotate namespace %s %s=true\".", p.Namespace, p.Name, p.Namespace, v1alpha1.AnnotationConfirmRelease)
}
