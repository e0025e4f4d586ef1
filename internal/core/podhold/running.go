package podhold

import "time"

// Resume returns the running time from which a guard continues, and its pods. stored is the running time that an earlier guard stored last; pods
// are those that it knew.
//
// The running time is how long the guards of a node have run, one after the other, as each has measured it. A guard measures how long pods are
// held by it, and not by the clock of the node, which can be set while no guard runs. Time that no guard has stored does not count, so a pod
// can be held for longer than its retention, but never for less.
func Resume(stored time.Duration, pods []Entry) (time.Duration, []Entry) {
	resumed := make([]Entry, len(pods))
	for _, e := range pods {
		stored = max(stored, e.HeldAt) // the earlier guard ran at least until then
	}
	for i, e := range pods {
		if e.IsHeld() && e.HeldAt == 0 { // not known: an earlier version stored the pod
			e.HeldAt = stored
		}
		resumed[i] = e
	}
	return stored, resumed
}
