package policy

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Verdict is what becomes of the protectors of a workload that is there.
type Verdict string

const (
	// Protect gives it protectors by Origin.
	Protect Verdict = "Protect"
	// Release lets its protectors go.
	Release Verdict = "Release"
	// Retain leaves its protectors as they are by Origin, which is not there any more; Reason and Message say why.
	Retain Verdict = "Retain"
)

// Choice is the outcome of Choose.
type Choice struct {
	Verdict Verdict
	Origin  Origin
	// Policy is the one that applies; nil where none does.
	Policy *Policy
	// Reason and Message say why a protector is retained or released. A release has a reason only if a policy causes it.
	Reason, Message string
}

// OptedOut tells whether a workload keeps all policies away.
func OptedOut(labels map[string]string) bool { return labels[v1alpha1.LabelProtect] == "false" }

// Choose decides by what a workload is protected. ranked are all policies, in order of precedence; optedIn tells that its
// label asks for a protector; last is what its protectors were made by so far, nil when there are none.
//
// Only what somebody did on purpose makes a protector weaker or lets it go. So a policy that is not there any more, and
// whose deletion was not seen, goes on counting even where another policy would apply now.
func Choose(ranked []*Policy, c Candidate, optedIn bool, last *Origin) Choice {
	if OptedOut(c.Labels) {
		return Choice{Verdict: Release, Message: "it has the label " + v1alpha1.LabelProtect + "=false"}
	}
	applies := Applies(ranked, c)
	former := find(ranked, last, c.Namespace)
	switch {
	case last != nil && last.Policy != "" && former == nil && !last.Removed:
		return retain(*last, v1alpha1.ReasonPolicyVanished, fmt.Sprintf(
			"%s is gone, but was not deleted on purpose: this PodProtector stays in force as it asked. Create the policy again, "+
				"or, if it is gone for good, remove the annotation %s.", last.Policy, v1alpha1.AnnotationPolicy))
	case applies != nil:
		return Choice{Verdict: Protect, Origin: applies.OriginFor(c.GroupKind()), Policy: applies}
	case optedIn:
		return Choice{Verdict: Protect}
	case last == nil || last.Policy == "":
		return Choice{Verdict: Release, Message: "it no longer has a label that asks for protection"}
	case former != nil && !former.Deleted && !former.Held && former.Selects(c):
		return retain(*last, v1alpha1.ReasonPolicyLeft, last.Policy+" is about to apply again.")
	case former != nil && !former.Deleted && former.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease:
		return Choice{Verdict: Release, Reason: v1alpha1.ReasonPolicyLeft, Message: last.Policy + " no longer selects it"}
	case former != nil && former.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease,
		former == nil && last.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease:
		// Without the policy its record counts: the brake held the release until the policy was gone.
		return Choice{Verdict: Release, Reason: v1alpha1.ReasonPolicyDeleted, Message: last.Policy + " was deleted"}
	case former != nil && !former.Deleted:
		return retain(*last, v1alpha1.ReasonPolicyLeft, fmt.Sprintf("%s selects this workload no more, and no other policy does: "+
			"this PodProtector stays in force as it asked (targetRemovalPolicy). %s", last.Policy, wayOut()))
	default:
		kept := *last
		kept.Removed = true
		return retain(kept, v1alpha1.ReasonPolicyDeleted, fmt.Sprintf("%s was deleted, and no other policy selects this workload: "+
			"this PodProtector stays in force as it asked (targetRemovalPolicy). %s", last.Policy, wayOut()))
	}
}

func retain(origin Origin, reason, message string) Choice {
	return Choice{Verdict: Retain, Origin: origin, Reason: reason, Message: message}
}

// wayOut tells how a protector that is retained can be released.
func wayOut() string {
	return "Label the workload " + v1alpha1.LabelProtect + "=false to release it, or " + v1alpha1.LabelProtect + "=true to protect it by its strategy."
}

// find returns the policy that protectors were made by, if it is there.
func find(policies []*Policy, last *Origin, namespace string) *Policy {
	if last == nil {
		return nil
	}
	for _, p := range policies {
		if p.String() == last.Policy && (p.Namespace == "" || p.Namespace == namespace) {
			return p
		}
	}
	return nil
}
