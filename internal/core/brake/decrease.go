package brake

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Decrease is a pending large decrease, parsed from the condition of its protector. Its JSON format is stable.
type Decrease struct {
	// Reason is the reason of the condition: QuietPeriod, LimitExceeded or Cascade.
	Reason string `json:"reason"`
	// Since is when the decrease was first seen.
	Since time.Time `json:"since"`
	// Cause is the cause of the decrease, as a clause: "Deployment web was deleted". If Message did not write the condition, Cause is
	// the whole message.
	Cause string `json:"cause"`
	// Effect is the effect of the decrease, as an infinitive: "release the floor of 8". It is empty if the message does not contain it.
	Effect string `json:"effect,omitempty"`
}

// DecreaseOf returns the pending decrease of a protector. ok is false if none is pending.
func DecreaseOf(p *v1alpha1.PodProtector) (d Decrease, ok bool) {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Decrease{}, false
	}
	d = Decrease{Reason: c.Reason, Since: c.LastTransitionTime.Time, Cause: c.Message}
	cause, rest, found := strings.Cut(c.Message, effectSeparator)
	if !found {
		return d, true
	}
	effect, _, _ := strings.Cut(rest, ". ")
	effect, _, _ = strings.Cut(effect, cascadeSeparator)
	d.Cause, d.Effect = cause, effect
	return d, true
}

// IsHeld reports whether the decrease waits for more than its quiet period: for a confirmation, or until the limit allows it.
func (d Decrease) IsHeld() bool { return d.Reason != v1alpha1.ReasonQuietPeriod }

// Summary returns the cause and the effect as a clause: "Deployment web was deleted, which would release the floor of 8".
func (d Decrease) Summary() string {
	if d.Effect == "" {
		return d.Cause
	}
	return d.Cause + effectSeparator + d.Effect
}

// IsSame reports whether both describe the same decrease. A decrease stays the same when it is held after its quiet period.
func (d Decrease) IsSame(other Decrease) bool {
	return d.Cause == other.Cause && d.Effect == other.Effect
}

// Command returns the command that confirms the pending decrease of a protector.
func Command(namespace, name string) string {
	return fmt.Sprintf("kubectl breakwater release --pending -n %s %s", namespace, name)
}

// DenialAdvice explains to a client whose removal a protector denied why the floor is still in force, and how to confirm the decrease. It
// returns a clause, or "" if no decrease is pending.
func DenialAdvice(p *v1alpha1.PodProtector) string {
	d, pending := DecreaseOf(p)
	switch {
	case !pending:
		return ""
	case !d.IsHeld():
		return "a decrease of the floor is pending, so try again after its quiet period of a few seconds"
	case d.Effect == "":
		return fmt.Sprintf("the floor is held although a decrease was requested: if that is intended, run %q or annotate namespace %s in the core cluster with %s=true",
			Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
	}
	return fmt.Sprintf("the floor is held although %s: if that is intended, run %q or annotate namespace %s in the core cluster with %s=true",
		d.Cause, Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
}
