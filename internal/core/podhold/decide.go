package podhold

import "time"

// Admission is what is known of the removal of a pod.
type Admission int

const (
	// Unknown means that the records of admitted removals could not be read.
	Unknown Admission = iota
	// NotAdmitted means that no removal of the pod was admitted.
	NotAdmitted
	// Admitted means that a removal of the pod was admitted.
	Admitted
)

// Verdict is the decision on a pod that disappeared from the API server.
type Verdict string

// The verdicts. All but Held let the kubelet see that the pod is gone.
const (
	Held        Verdict = "Held"
	Deleted     Verdict = "Deleted"     // rule N1
	NotRelevant Verdict = "NotRelevant" // rule N2
	Removed     Verdict = "Removed"     // rule N3
)

// NeedsAdmission reports whether Decide depends on the admission, which is costly to find out.
func NeedsAdmission(p Pod, protected bool) bool {
	return Decide(p, protected, NotAdmitted) != Decide(p, protected, Admitted)
}

// Decide decides on a pod that disappeared. p is its last state.
func Decide(p Pod, protected bool, admission Admission) Verdict {
	switch {
	case p.Deleting: // rule N1
		return Deleted
	case !protected, p.Ended, !p.Started, p.Mirror: // rule N2
		return NotRelevant
	case admission == Admitted: // rule N3
		return Removed
	default: // rule N4
		return Held
	}
}

// Facts are what can end a held pod.
type Facts struct {
	Admission Admission
	// Released reports that a user released the pod. Replaced reports that another pod of its name runs.
	Released, Replaced bool
	// Unregistrable reports that the API server can never have the pod, so that no count includes it. Satisfied reports that the floors of its
	// protectors are satisfied; see IsSatisfied.
	Unregistrable, Satisfied bool
	// Held is how long the pod has been held, and Retention is for how long it may be.
	Held, Retention time.Duration
}

// End is why a held pod ends. The zero value means that it does not.
type End string

// The reasons, by precedence.
const (
	EndAdmitted  End = "Admitted"
	EndReleased  End = "Released"
	EndReplaced  End = "Replaced"
	EndSatisfied End = "Satisfied"
	EndRetention End = "Retention"
)

// Ends returns all reasons.
func Ends() []End { return []End{EndAdmitted, EndReleased, EndReplaced, EndSatisfied, EndRetention} }

// EndOf decides whether a held pod ends (rule N5).
func EndOf(f Facts) End {
	switch {
	case f.Admission == Admitted:
		return EndAdmitted
	case f.Released:
		return EndReleased
	case f.Replaced: // rule N6: never two of a name
		return EndReplaced
	case f.Unregistrable && f.Satisfied: // rule N8
		return EndSatisfied
	case f.Held >= f.Retention:
		return EndRetention
	default:
		return ""
	}
}
