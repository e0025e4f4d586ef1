package podhold

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Entry is a pod that the kubelet sees.
type Entry struct {
	// Pod is its last state, with the UID by which the kubelet knows it.
	Pod Pod
	// Registered is the UID of the registration, by which the API server knows the pod; empty if it is Pod.UID. A held pod has one while
	// its registration is not complete.
	Registered types.UID
	// HeldSince is when the pod disappeared from the API server, by the clock of the node; zero if the API server has it. It is for users, and
	// for comparisons with times of the API server.
	HeldSince time.Time
	// HeldAt is the running time of the guard then. It measures for how long the pod is held; see Resume.
	HeldAt time.Duration
	// Lost is the UID by which the API server knew a held pod.
	Lost types.UID
}

// IsHeld reports whether the API server does not have the pod, or only an incomplete registration of it.
func (e *Entry) IsHeld() bool { return !e.HeldSince.IsZero() }

// APIUID returns the UID by which the API server knows the pod, or knew it last.
func (e *Entry) APIUID() types.UID { return cmp.Or(e.Registered, e.Lost, e.Pod.UID) }

// Removable returns the UIDs whose removal ends a held pod: that by which the API server knew it, and that of its incomplete registration.
func (e *Entry) Removable() []types.UID {
	uids := []types.UID{cmp.Or(e.Lost, e.Pod.UID)}
	if e.Registered != "" {
		uids = append(uids, e.Registered)
	}
	return uids
}

// View is what a kubelet sees of the pods of its node. It is not safe for concurrent use.
type View struct {
	entries map[types.NamespacedName]*Entry
}

// NewView returns the view of a kubelet that already sees these pods.
func NewView(entries ...Entry) *View {
	v := &View{entries: map[types.NamespacedName]*Entry{}}
	for _, e := range entries {
		v.entries[e.Pod.NamespacedName] = &e
	}
	return v
}

// Change is how the view changes by a pod that the API server has, or no longer has.
type Change int

const (
	// Hide means that the kubelet must not see this.
	Hide Change = iota
	// Show means that the kubelet sees the pod.
	Show
	// Register means that the kubelet must not see this, and that the pod has become the incomplete registration of a held pod. The caller
	// completes it.
	Register
	// Lose means that a pod that the kubelet sees disappeared. The caller decides on it with Decide, and then calls Hold or Drop.
	Lose
)

// Observe records a pod that the API server has. A pod with the name of an earlier one that is not held shows that the earlier one
// disappeared: then it returns Lose, and the caller must Hold or Drop that and call Observe again.
func (v *View) Observe(p Pod) Change {
	e := v.entries[p.NamespacedName]
	switch {
	case e == nil:
		v.entries[p.NamespacedName] = &Entry{Pod: p}
		return Show
	case e.IsHeld() && p.UID == e.Registered && !p.Deleting:
		return Hide // the registration is not complete
	case p.UID == e.APIUID() || p.UID == e.Pod.UID:
		e.setRegistration(p.UID)
		e.update(p)
		return Show
	case !e.IsHeld():
		return Lose
	case CanRegister(p, e.Pod): // rule N7
		e.Registered = p.UID
		return Register
	default: // rule N6
		return Hide
	}
}

// setRegistration records that the API server has the pod, under a UID.
func (e *Entry) setRegistration(uid types.UID) {
	e.HeldSince, e.HeldAt, e.Lost, e.Registered = time.Time{}, 0, "", uid
	if uid == e.Pod.UID {
		e.Registered = ""
	}
}

// update takes over the state of a pod. What has started has started: a registration begins without status.
func (e *Entry) update(p Pod) {
	p.UID, p.Started, p.Containers = e.Pod.UID, p.Started || e.Pod.Started, e.Pod.Containers
	e.Pod = p
}

// Vanish records that the API server reports a pod as deleted. last is the state in which it was. It returns Lose if the kubelet sees
// that pod, or if a client deleted its incomplete registration, and Hide otherwise.
func (v *View) Vanish(last Pod) Change {
	e := v.entries[last.NamespacedName]
	switch {
	case e == nil, last.UID != e.APIUID():
		return Hide
	case e.IsHeld() && last.Deleting && last.UID == e.Registered: // rule N1: a client deleted the incomplete registration
		e.setRegistration(last.UID)
	case e.IsHeld():
		e.Registered = "" // an incomplete registration
		return Hide
	}
	e.update(last)
	return Lose
}

// Missing returns the pods that the kubelet sees, that are not held, and that are not in a list of the API server, by name.
func (v *View) Missing(listed map[types.UID]bool) []Pod {
	var missing []Pod
	for _, e := range v.sorted() {
		if !e.IsHeld() && !listed[e.APIUID()] && !listed[e.Pod.UID] {
			missing = append(missing, e.Pod)
		}
	}
	return missing
}

// Hold records that a pod that disappeared is held (rule N4). A held pod has no registration.
func (v *View) Hold(name types.NamespacedName, now time.Time, running time.Duration) {
	if e := v.entries[name]; e != nil && !e.IsHeld() {
		e.HeldSince, e.HeldAt, e.Lost, e.Registered = now, running, e.APIUID(), ""
	}
}

// Begin records an incomplete registration of a held pod, which the caller completes.
func (v *View) Begin(name types.NamespacedName, uid types.UID) {
	if e := v.entries[name]; e != nil && e.IsHeld() {
		e.Registered = uid
	}
}

// Complete records that the registration of a held pod is complete: the API server has the pod again. It reports whether that is new.
func (v *View) Complete(name types.NamespacedName, uid types.UID) bool {
	e := v.entries[name]
	if e == nil || !e.IsHeld() || uid == "" || e.Registered != uid {
		return false
	}
	e.setRegistration(uid)
	return true
}

// Drop removes a pod from the view: the kubelet sees that it is gone.
func (v *View) Drop(name types.NamespacedName) { delete(v.entries, name) }

// Get returns the pod of that name that the kubelet sees.
func (v *View) Get(name types.NamespacedName) (Entry, bool) {
	e, ok := v.entries[name]
	if !ok {
		return Entry{}, false
	}
	return *e, true
}

// Held returns the held pods, by name.
func (v *View) Held() []Entry {
	return slices.DeleteFunc(v.All(), func(e Entry) bool { return !e.IsHeld() })
}

// All returns the pods that the kubelet sees, by name.
func (v *View) All() []Entry {
	all := make([]Entry, 0, len(v.entries))
	for _, e := range v.sorted() {
		all = append(all, *e)
	}
	return all
}

func (v *View) sorted() []*Entry {
	return slices.SortedFunc(maps.Values(v.entries), func(a, b *Entry) int { return compareNames(a.Pod, b.Pod) })
}

func compareNames(a, b Pod) int {
	switch {
	case a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name:
		return -1
	case a.NamespacedName == b.NamespacedName:
		return 0
	default:
		return 1
	}
}
