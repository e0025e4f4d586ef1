package policy

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Verdict is the decision on the protectors of a workload that exists.
type Verdict string

const (
	// Protect means that the workload gets protectors as Origin defines.
	Protect Verdict = "Protect"
	// Release means that the workload's protectors are released.
	Release Verdict = "Release"
	// Retain means that the protectors stay as Origin defines although that policy no longer applies; Reason and Message explain why.
	Retain Verdict = "Retain"
)

// Choice is the result of Choose.
type Choice struct {
	Verdict Verdict
	Origin  Origin
	// Policy is the policy that applies. It is nil if none does.
	Policy *Policy
	// Deleted has the metadata of the policy that generated the protectors, if its deletion causes the choice: it may be part of a cascade. Otherwise it
	// is nil. It has no owners if the policy does not exist any more.
	Deleted metav1.Object
	// Reason and Message explain why a protector is retained or released. A release has a reason only if a policy causes it.
	Reason, Message string
}

// OptedOut reports whether a workload's labels exclude it from all policies.
func OptedOut(labels map[string]string) bool { return labels[v1alpha1.LabelProtect] == "false" }

// Choose decides how a workload is protected. ranked has all policies in order of precedence. optedIn reports whether the workload's
// label asks for a protector. last is the origin of its existing protectors, or nil if there are none.
//
// Only an intended change weakens or releases a protector. So a policy that no longer exists, but whose deletion the generator did
// not see, stays in force even if another policy would apply now.
func Choose(ranked []*Policy, c Candidate, optedIn bool, last *Origin) Choice {
	if OptedOut(c.Labels) {
		return Choice{Verdict: Release, Message: "it has the label " + v1alpha1.LabelProtect + "=false"}
	}
	applying := Select(ranked, c)
	former := policyOf(ranked, last, c.Namespace)
	deleted := deletedPolicy(former, last, c.Namespace)
	switch {
	case last != nil && last.Policy != "" && former == nil && !last.Removed:
		return retain(*last, v1alpha1.ReasonPolicyVanished, fmt.Sprintf(
			"%s no longer exists, but the generator did not see its deletion: this PodProtector stays in force by its last rule. "+
				"Create the policy again, or, if it will not return, remove the annotation %s.", last.Policy, v1alpha1.AnnotationPolicy))
	case applying != nil:
		return Choice{Verdict: Protect, Origin: applying.OriginFor(c.GroupKind()), Policy: applying, Deleted: deleted}
	case optedIn:
		return Choice{Verdict: Protect, Deleted: deleted}
	case last == nil || last.Policy == "":
		return Choice{Verdict: Release, Message: "it no longer has a label that requests protection"}
	case former != nil && !former.Deleted && !former.HasFinalizer && former.Selects(c):
		return retain(*last, v1alpha1.ReasonPolicyLeft, last.Policy+" is about to apply again.")
	case former != nil && !former.Deleted && former.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease:
		return Choice{Verdict: Release, Reason: v1alpha1.ReasonPolicyLeft, Message: last.Policy + " no longer selects it"}
	case former != nil && former.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease,
		former == nil && last.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease:
		// If the policy no longer exists, its record decides: the brake held the release until the policy was deleted.
		return Choice{Verdict: Release, Deleted: deleted, Reason: v1alpha1.ReasonPolicyDeleted, Message: last.Policy + " was deleted"}
	case former != nil && !former.Deleted:
		return retain(*last, v1alpha1.ReasonPolicyLeft, fmt.Sprintf("%s no longer selects this workload, and no other policy does: "+
			"this PodProtector stays in force because of its targetRemovalPolicy. %s", last.Policy, releaseHint()))
	default:
		retained := *last
		retained.Removed = true
		return retain(retained, v1alpha1.ReasonPolicyDeleted, fmt.Sprintf("%s was deleted, and no other policy selects this workload: "+
			"this PodProtector stays in force because of its targetRemovalPolicy. %s", last.Policy, releaseHint()))
	}
}

func retain(origin Origin, reason, message string) Choice {
	return Choice{Verdict: Retain, Origin: origin, Reason: reason, Message: message}
}

// releaseHint explains how a user can release a retained protector.
func releaseHint() string {
	return "Label the workload " + v1alpha1.LabelProtect + "=false to release it, or " + v1alpha1.LabelProtect + "=true to protect it by its strategy."
}

// deletedPolicy returns the metadata of the policy of the protectors' origin if a user or a controller deleted it. former is that policy, or nil if it
// does not exist.
func deletedPolicy(former *Policy, last *Origin, namespace string) metav1.Object {
	switch {
	case former != nil && former.Deleted:
		return &metav1.ObjectMeta{Namespace: former.Namespace, Name: former.Name, OwnerReferences: former.OwnerReferences}
	case former == nil && last != nil && last.Removed:
		kind, name, _ := strings.Cut(last.Policy, "/")
		if kind == ClusterPolicy {
			namespace = ""
		}
		return &metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	return nil
}

// policyOf returns the policy of the protectors' origin, or nil if it does not exist.
func policyOf(policies []*Policy, last *Origin, namespace string) *Policy {
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
