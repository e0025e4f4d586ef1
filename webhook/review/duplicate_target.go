package review

import (
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// VerdictNamesake is the verdict for a protector that names the same workload as another one.
const VerdictNamesake removal.VerdictReason = "Namesake"

// reviewedProtector is the part of a protector that ReviewProtector reads.
type reviewedProtector struct {
	Spec struct {
		TargetRef *v1alpha1.TargetRef `json:"targetRef"`
	} `json:"spec"`
}

// ReviewProtector answers whether a protector may be stored in a core. It denies one whose targetRef equals that of
// another protector in the namespace, since each removal would then need the budget of both, which no user intends. Two
// protectors that are created at the same instant may both pass; the condition Overlapping reports them.
func (p *Protection) ReviewProtector(core string, review *admissionv1.AdmissionRequest) removal.Answer {
	unguarded := removal.Admit(removal.VerdictUnguarded).Answer("", removal.Request{})
	target := p.cores.Named(core)
	if target == nil || review.Resource.Group != v1alpha1.GroupVersion.Group || review.Resource.Resource != "podprotectors" {
		return unguarded
	}
	var now, before reviewedProtector
	if err := removal.DecodeJSON(review.Object.Raw, &now); err != nil {
		return denyMalformed("object", review.Name, err)
	}
	if review.Operation == admissionv1.Update {
		if err := removal.DecodeJSON(review.OldObject.Raw, &before); err != nil {
			return denyMalformed("oldObject", review.Name, err)
		}
	}
	ref := now.Spec.TargetRef
	if ref == nil || before.Spec.TargetRef != nil && *before.Spec.TargetRef == *ref {
		return unguarded
	}
	other, found := target.States.FindSameTarget(types.NamespacedName{Namespace: review.Namespace, Name: review.Name}, *ref)
	if !found {
		return unguarded
	}
	return removal.Answer{Verdict: VerdictNamesake, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("PodProtector %q already has the same targetRef (%s %s): change or delete that one first.",
			other, ref.Kind, ref.Name),
	}}
}

func denyMalformed(field, name string, err error) removal.Answer {
	denial := &removal.Denial{Cause: removal.CauseMalformed, Detail: fmt.Sprintf("%s of PodProtector %q: %v", field, name, err)}
	return removal.Deny(denial).Answer("", removal.Request{})
}
