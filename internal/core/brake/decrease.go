package brake

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Decrease is a pending large decrease as the condition of its protector describes it. The shape of its JSON is stable.
type Decrease struct {
	// Reason is the reason of the condition: QuietPeriod, LimitExceeded or Cascade.
	Reason string `json:"reason"`
	// Since is when the decrease was first seen.
	Since time.Time `json:"since"`
	// Cause is what asked for the decrease, as a clause: "Deployment web was deleted". It is the whole message of a condition that Message did
	// not write.
	Cause string `json:"cause"`
	// Effect is what the decrease would do, as an infinitive: "release the floor of 8". It is empty if the message does not say it.
	Effect string `json:"effect,omitempty"`
}

// DecreaseOf reads the pending decrease of a protector; ok is false if none is pending.
func DecreaseOf(p *v1alpha1.PodProtector) (d Decrease, ok bool) {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return Decrease{}, false
	}
	d = Decrease{Reason: c.Reason, Since: c.LastTransitionTime.Time, Cause: c.Message}
	cause, rest, found := strings.Cut(c.Message, whichWould)
	if !found {
		return d, true
	}
	effect, _, _ := strings.Cut(rest, ". ")
	effect, _, _ = strings.Cut(effect, butCascade)
	d.Cause, d.Effect = cause, effect
	return d, true
}

// IsHeld reports whether the decrease waits for more than its quiet period: for a confirmation, or for the limit to allow it.
func (d Decrease) IsHeld() bool { return d.Reason != v1alpha1.ReasonQuietPeriod }

// Asks reports what was asked for, as a clause with its effect: "Deployment web was deleted, which would release the floor of 8".
func (d Decrease) Asks() string {
	if d.Effect == "" {
		return d.Cause
	}
	return d.Cause + whichWould + d.Effect
}

// IsSame reports whether two descriptions are of the same decrease. One that is held after its quiet period is the same as before.
func (d Decrease) IsSame(other Decrease) bool {
	return d.Cause == other.Cause && d.Effect == other.Effect
}

// Command is the command that confirms the pending decrease of a protector.
func Command(namespace, name string) string {
	return fmt.Sprintf("kubectl breakwater release --pending -n %s %s", namespace, name)
}

// Advice tells a client that a protector refuses why its floor is still in force, and how to confirm the decrease, as a clause; empty if no
// decrease is pending.
func Advice(p *v1alpha1.PodProtector) string {
	d, pending := DecreaseOf(p)
	switch {
	case !pending:
		return ""
	case !d.IsHeld():
		return "a decrease of the floor is pending, so try again after its quiet period of a few seconds"
	case d.Effect == "":
		return fmt.Sprintf("the floor is held although a decrease of it was asked for: if that is intended, run %q or annotate namespace %s in the core cluster with %s=true",
			Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
	}
	return fmt.Sprintf("the floor is held although %s: if that is intended, run %q or annotate namespace %s in the core cluster with %s=true",
		d.Cause, Command(p.Namespace, p.Name), p.Namespace, v1alpha1.AnnotationConfirmRelease)
}
