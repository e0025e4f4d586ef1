package aggregator

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// protectorHistory remembers what the watch of protectors has shown, also while another process leads the cell.
type protectorHistory struct {
	cell      string
	monotonic func() time.Time
	// ended are the protectors that ended recently.
	ended endedProtectors
	// transitions are the specs of protectors that changed recently.
	transitions transitions
}

// seen handles the state of a protector that the watch shows. The watch does not show the spec of a protector that another shard
// counts.
func (h *protectorHistory) seen(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	switch {
	case !ok:
	case clusters.IsStub(p):
		h.transitions.forget(p)
	default:
		h.ended.recordExists(p.UID)
		h.transitions.record(p, h.cell, h.monotonic())
	}
}

// replaced handles an update of the watch, which shows one protector in place of another if it missed the deletion.
func (h *protectorHistory) replaced(old, now any) {
	p, ok := old.(*v1alpha1.PodProtector)
	if next, isNext := now.(*v1alpha1.PodProtector); ok && isNext && p.UID != next.UID {
		h.ended.recordEnd(p, h.cell, true, h.monotonic())
	}
}

// deleted handles a deletion. A watch that missed it passes the last state that it has.
func (h *protectorHistory) deleted(obj any) {
	tombstone, missed := obj.(toolscache.DeletedFinalStateUnknown)
	if missed {
		obj = tombstone.Obj
	}
	if p, ok := obj.(*v1alpha1.PodProtector); ok {
		h.ended.recordEnd(p, h.cell, missed, h.monotonic())
		h.transitions.forget(p)
	}
}
