package podhold

import "time"

// NameVerdict is the decision on a pod that the API server has under the name of a held pod.
type NameVerdict int

const (
	// Foreign means that the pod belongs to another owner. The held pod stays, and a user must decide.
	Foreign NameVerdict = iota
	// Adopt means that the pod becomes the registration of the held pod.
	Adopt
	// Remove means that the pod is a replacement, which is deleted in favor of the held pod.
	Remove
	// Present means that the API server has the held pod itself: the list that did not have it was stale, or the pod has returned. The guard
	// knows only an earlier state, which must not replace the current one.
	Present
	// Yield means that the pod had replaced the held pod before that was lost. The held pod ends.
	Yield
)

// replacedBefore is how much earlier than the loss a replacement must have been created to win. Controllers replace a lost pod within seconds,
// and the clocks of the node and the API server may differ.
const replacedBefore = time.Minute

// DecideName decides on a pod with the name of a held one (rule N6). here reports whether it is bound to this node. registers reports whether
// the guard itself has created it for the held pod. created is when it was created.
func DecideName(other Pod, here, registers bool, created time.Time, held Entry) NameVerdict {
	switch {
	case here && (other.UID == held.Pod.UID || other.UID == held.Lost):
		return Present
	case here && (registers || CanRegister(other, held.Pod)):
		return Adopt
	case other.Owner.Kind != held.Pod.Owner.Kind || other.Owner.Name != held.Pod.Owner.Name:
		return Foreign
	case other.Started && held.HeldSince.Sub(created) > replacedBefore:
		return Yield
	default:
		return Remove
	}
}
