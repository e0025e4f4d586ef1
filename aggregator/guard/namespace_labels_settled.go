package guard

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// labelSettle is how long a namespace must have had its label before its protectors count as guarded: the API server evaluates
// namespaceSelectors with a watch of its own, which may be late.
const labelSettle = 5 * time.Second

// labelState is what was last found out about a namespace.
type labelState struct {
	// uid is the UID of the namespace; empty if it does not exist.
	uid types.UID
	// since is when the label was set or found, on the monotonic clock.
	since time.Time
	// isInherited reports whether the label was found in a namespace of which nothing was known, or the namespace was deleted and not read since.
	// Then the protectors that reported to be guarded still do.
	isInherited bool
	// confirmed are the protectors that existed when a live read found the label, or that the namespace does not exist.
	confirmed sets.Set[types.UID]
	// releasingSince is when a live read found that the core releases the label, and releasedVersion the version of the namespace then.
	releasingSince  time.Time
	releasedVersion string
}

// isSettled reports whether the API server can be expected to review removals in the namespace of a protector, as far as the label decides.
// wasSettled is what the protector reports. It is the answer until the namespace has been read, and while nothing is known of the time before. It may be
// called for nil, which labels nothing.
func (l *namespaceLabels) isSettled(p *v1alpha1.PodProtector, wasSettled bool) bool {
	if l == nil || !l.owns(p.Namespace) { // the cell has no pods there, or the counts will not be written
		return true
	}
	l.mu.Lock()
	state, known := l.states[p.Namespace]
	l.mu.Unlock()
	isConfirmed := state.confirmed.Has(p.UID)
	if !isConfirmed {
		l.queue.Add(p.Namespace)
	}
	switch {
	case !known:
		return wasSettled
	case !isConfirmed:
		return state.isInherited && wasSettled
	case state.uid == "":
		_, exists, _ := l.stored.GetByKey(p.Namespace)
		return !exists // it has no pods, and needs no label
	case l.monotonic().Sub(state.since) < labelSettle:
		return state.isInherited && wasSettled
	default:
		return true
	}
}

// namespaceChanged handles a change of a namespace, its creation, or its deletion if it does not exist any more. It may be called for nil.
func (l *namespaceLabels) namespaceChanged(namespace *metav1.PartialObjectMetadata, exists bool) {
	if l == nil {
		return
	}
	protectors := l.protectors(namespace.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	state, known := l.states[namespace.Name]
	switch {
	case len(protectors) == 0 || !l.owns(namespace.Name):
		if state.releasingSince.IsZero() || !exists {
			delete(l.states, namespace.Name)
		}
		return
	case !exists && known && state.uid != namespace.UID: // its successor was read before
	case !exists:
		l.states[namespace.Name] = labelState{isInherited: true} // it may exist again: a watch is late
	case known && state.uid != namespace.UID, namespace.Labels[v1alpha1.LabelProtected] != "true":
		l.states[namespace.Name] = labelState{uid: namespace.UID, since: l.monotonic()}
	}
	l.queue.Add(namespace.Name)
}

func uidsOf(protectors []*v1alpha1.PodProtector) sets.Set[types.UID] {
	uids := sets.Set[types.UID]{}
	for _, p := range protectors {
		uids.Insert(p.UID)
	}
	return uids
}

// confirm records that a live read found the label after the protectors were created, or that it was set. It returns how long it takes until
// the label is settled. A label that this process neither set nor knew may be as young, because a former leader or that of another cell of the cluster
// has just set it: it is settled at once only for protectors that report so.
func (l *namespaceLabels) confirm(found *metav1.PartialObjectMetadata, protectors []*v1alpha1.PodProtector, wasLabeled bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.monotonic()
	state, known := l.states[found.Name]
	if !wasLabeled || !known || state.uid != found.UID || state.since.IsZero() {
		state = labelState{uid: found.UID, since: now, isInherited: wasLabeled && !known}
	}
	state.confirmed, state.releasingSince = uidsOf(protectors), time.Time{}
	l.states[found.Name] = state
	return labelSettle - now.Sub(state.since)
}

// setState replaces the state of a namespace; nil forgets it.
func (l *namespaceLabels) setState(namespace string, state *labelState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == nil {
		delete(l.states, namespace)
		return
	}
	l.states[namespace] = *state
}
