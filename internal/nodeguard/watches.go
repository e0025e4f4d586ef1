package nodeguard

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// kubeletWatches are the kubelet's watches of its pods.
type kubeletWatches struct {
	streams map[*stream]bool
	// resync reports that the kubelet must list its pods before it watches them, because it has not watched for a while.
	resync bool
	// hidden are the pods of the API server that the kubelet does not see because a held pod has their name (rule N6), by UID.
	hidden map[types.UID]types.NamespacedName
	// ends is how many held pods have ended.
	ends int
}

func newKubeletWatches() kubeletWatches {
	return kubeletWatches{streams: map[*stream]bool{}, resync: true, hidden: map[types.UID]types.NamespacedName{}}
}

// recordHidden records whether the kubelet sees a pod of the API server. It does not count the incomplete registration of a held pod, which ends with
// that. The caller holds the lock.
func (g *Guard) recordHidden(p podhold.Pod, change podhold.Change) {
	e, ok := g.pods.view.Get(p.NamespacedName)
	if change == podhold.Hide && ok && e.Registered != p.UID {
		g.watches.hidden[p.UID] = p.NamespacedName
		return
	}
	delete(g.watches.hidden, p.UID)
}

// recordEnd records that a held pod ended, and ends the streams if the kubelet must list its pods because of that. The caller holds the lock, and has
// given the streams the deletion of the pod.
func (w *kubeletWatches) recordEnd(held types.NamespacedName) {
	w.ends++
	isHiding := false
	for uid, name := range w.hidden {
		if name == held {
			isHiding = true
			delete(w.hidden, uid)
		}
	}
	if len(w.streams) == 0 { // the kubelet has listed the held pod, and does not watch yet
		w.resync = true
	}
	if !isHiding {
		return
	}
	w.resync = true
	for s := range w.streams {
		select {
		case s.relist <- struct{}{}:
		default: // the stream ends already
		}
	}
}

func (g *Guard) endsSoFar() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watches.ends
}

// recordListed records that the kubelet lists its pods. ends is endsSoFar when the list began: if a held pod has ended since, the list may have that pod,
// and lack the one that was hidden behind it.
func (g *Guard) recordListed(ends int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ends == g.watches.ends {
		g.watches.resync = false
	}
}

// mustResync reports whether the kubelet must list its pods before it watches them.
func (g *Guard) mustResync() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watches.resync
}

// isWatched reports whether the kubelet watches its pods.
func (g *Guard) isWatched() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.watches.streams) > 0
}
