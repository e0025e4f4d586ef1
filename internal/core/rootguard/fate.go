package rootguard

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

// fate is what happens to a floor after the deletion of an object that it depends on. Rule 13 decides, in the generator. A review is about
// one object, so a fate does not depend on other deletions.
type fate int

const (
	// held floors stay in force until a user confirms their release: the deletion is a cascade, or the source vanished.
	held fate = iota
	// braked floors are released after the quiet period, unless more large decreases are pending than the limit allows.
	braked
	// released floors are released at once, because a user confirmed it.
	released
	// sourced floors stay in force while their source wants protection: a user deletes their PodProtector only.
	sourced
	// stranded floors are deleted with the kind of PodProtectors. Their finalizers keep them in force.
	stranded
	// uncounted floors stay in force, but the pods of the deleted Cells do not count for them.
	uncounted
	// kept floors stay in force: only their pods are deleted.
	kept
)

// fateOf returns the fate of a floor that depends on the object.
func (q *Deletion) fateOf(f *Floor) fate {
	o := q.Object
	switch {
	case !f.Local, f.share != nil: // a share releases nothing
		return kept
	case o.Kind == ownKind("Cell"), o.Kind == definitionKind() && o.Defines == ownKind("Cell"):
		return uncounted
	case o.Kind == definitionKind() && o.Defines == ownKind("PodProtector"):
		return stranded
	case o.Kind == ownKind("PodProtector") && f.Source != nil && f.sourceCondition() == "":
		return sourced
	case !q.endsFloor(f):
		return kept
	case q.isReleaseConfirmed(f):
		return released
	case f.sourceCondition() == v1alpha1.ReasonSourceVanished, q.isCascadeOver(f) && q.holdsCascade(f):
		return held
	}
	return braked
}

// endsFloor reports whether the deletion also deletes the source of the floor or its PodProtector.
func (q *Deletion) endsFloor(f *Floor) bool {
	switch o := q.Object; o.Kind {
	case namespaceKind(), ownKind("PodProtector"):
		return true
	case definitionKind():
		return o.Defines.Group != v1alpha1.GroupVersion.Group && f.isFromKind(o.Defines)
	default:
		return f.isFrom(o) || f.isOwnedBy(o)
	}
}

// isCascadeOver reports whether the deletion ends the floor by a cascade: it deletes the source with another object.
func (q *Deletion) isCascadeOver(f *Floor) bool {
	return q.Object.Kind != ownKind("PodProtector") && !f.isFrom(q.Object)
}

// holdsCascade reports whether the release brake holds a floor that a cascade ends.
func (q *Deletion) holdsCascade(f *Floor) bool {
	_, limits := brake.BudgetOf(f.protector, brake.Limits{OnCascade: q.OnCascade})
	return limits.OnCascade != v1alpha1.CascadeRelease
}

// isReleaseConfirmed reports whether the release of the floor is confirmed where the generator reads confirmations: on its PodProtector,
// its source or its namespace.
func (q *Deletion) isReleaseConfirmed(f *Floor) bool {
	o := q.Object
	own := o.Kind == namespaceKind() || o.Kind == ownKind("PodProtector") || f.isFrom(o)
	return f.Confirmed || own && confirm.Confirmed(o.Annotations, q.Now) || confirm.Confirmed(o.NamespaceAnnotations, q.Now)
}

// sourceCondition returns why the source of a generated PodProtector does not exist. It is empty if the source exists.
func (f *Floor) sourceCondition() string {
	c := meta.FindStatusCondition(f.protector.Status.Conditions, v1alpha1.ConditionTargetResolved)
	if c != nil && (c.Reason == v1alpha1.ReasonSourceVanished || c.Reason == v1alpha1.ReasonSourceDeleted) {
		return c.Reason
	}
	return ""
}

// clause returns the predicate of a number of floors with this fate.
func (w fate) clause(floors int) string {
	stay, are := "stay in force", "are"
	if floors == 1 {
		stay, are = "stays in force", "is"
	}
	switch w {
	case held:
		return stay + " until you confirm"
	case braked:
		return are + " released after a quiet period, unless too many floors fall at once"
	case released:
		return are + " released at once, because a user confirmed it"
	case sourced:
		return stay + " until the workload is deleted, or labeled " + v1alpha1.LabelProtect + "=false"
	case stranded:
		return stay + ", and no other can be created, until you run \"breakwater release --all-namespaces --deleted\""
	case uncounted:
		return stay + ", but the pods of the cells no longer count"
	default:
		return stay + ", and the webhook denies removals of pods beyond the budget"
	}
}
