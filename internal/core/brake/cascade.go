package brake

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

// IsConfirmed reports whether a user confirmed the decrease by an annotation on the protector, on its source, on the deleted object
// or on the namespace. The parameter namespace has the annotations of the namespace.
func (r Request) IsConfirmed(namespace map[string]string, now time.Time) bool {
	return confirm.Confirmed(r.Protector.Annotations, now) || r.Source != nil && confirm.Confirmed(r.Source.GetAnnotations(), now) ||
		r.Deleted != nil && confirm.Confirmed(r.Deleted.GetAnnotations(), now) || confirm.Confirmed(namespace, now)
}

// CascadeOf returns the reason why the deletion that causes a request is part of a cascade, or "" if it is not. namespaceDeleted reports whether the
// namespace of the protector is being deleted: then the deletion of a policy of all namespaces is not evidence of intent, either. ownerDeleted returns
// a clause if an owner was deleted, or may have been, and "" if the owner exists.
func CascadeOf(r Request, namespaceDeleted bool, ownerDeleted func(metav1.OwnerReference) (string, error)) (why string, err error) {
	if namespaceDeleted {
		return fmt.Sprintf("namespace %q is being deleted", r.Protector.Namespace), nil
	}
	for _, owner := range r.Deleted.GetOwnerReferences() {
		gone, err := ownerDeleted(owner)
		if err != nil || gone == "" {
			return "", err // the garbage collector does not delete an object that still has an owner
		}
		why = gone
	}
	return why, nil
}

// NeedsCascadeCheck reports whether the caller must check for a cascade: the decrease is new, or it may still prove to be part of one.
func (r Request) NeedsCascadeCheck() bool {
	pending, known := PendingOf(r.Protector)
	return !known || !pending.Cascade && r.Deleted != nil
}

// Replaces reports whether the decrease differs from the one that the protector's condition records, so that it has a quiet period of its own. What
// is held as a cascade stays so whatever else is requested: the evidence of the cascade may be gone.
func (r Request) Replaces() bool {
	pending, known := PendingOf(r.Protector)
	return known && !pending.Cascade && pending.Change != ChangeOf(r.Protector, r.Effect)
}

// RevertsCascade reports whether the request comes from a workload that exists although the protector's condition records a cascade.
// The cascade was then undone, and this request is another decrease with a quiet period of its own. If the request is due to the deletion of a policy,
// the cascade must be that of the workload: the deletion of a policy in a cascade is not undone by a workload that exists.
func (r Request) RevertsCascade() bool {
	recorded, known := DecreaseOf(r.Protector)
	isUndone := r.Deleted == nil || strings.HasSuffix(recorded.Cause, wasDeleted)
	return known && recorded.Reason == v1alpha1.ReasonCascade && isUndone && r.Source != nil && r.Source.GetDeletionTimestamp() == nil
}

// MayCascade reports whether the limits hold the decrease if its cause is a cascade. Only a deletion can be part of one.
func (r Request) MayCascade(l Limits) bool {
	return r.Deleted != nil && l.OnCascade != v1alpha1.CascadeRelease
}

// NextPending returns the pending decrease of a protector after a request, based on the decrease that its condition records. p is the newest state of
// the protector. cascade is the reason why it is a cascade, or "". isNew reports whether the caller must write the condition.
func NextPending(p *v1alpha1.PodProtector, r Request, cascade string, now time.Time) (pending Pending, isNew bool) {
	r.Protector = p
	pending, known := PendingOf(p)
	known = known && !r.Replaces()
	if known && (cascade == "" || pending.Cascade) {
		return pending, false
	}
	if !known {
		pending = Pending{Protector: p.UID, Since: now, Change: ChangeOf(p, r.Effect)}
	}
	pending.Cascade = cascade != ""
	return pending, true
}

// HoldsCascade reports whether the limits hold the decrease as a cascade. A cascade that they do not hold is treated like any other decrease.
func (l Limits) HoldsCascade(p Pending) bool {
	return p.Cascade && l.OnCascade != v1alpha1.CascadeRelease
}
