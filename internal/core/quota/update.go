package quota

import (
	"cmp"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// mostUpdates is how many pods of a cell may be under update at once: each is kept by itself in the status.
const mostUpdates = 1000

// Update is a change of a pod that makes it unavailable for a while, or several. It has taken effect when the pod is of the
// generation, and is done when the pod's status is, the containers have been restarted so often, and the pod is available.
type Update struct {
	// Generation is that of the first, which may be all that take effect.
	Generation int64
	Containers []v1alpha1.ContainerRestarts
	// Removal tells that the pod is to be removed, or relabelled, besides.
	Removal bool
}

// None tells whether there is no update.
func (u *Update) None() bool { return u.Generation == 0 }

func updateOf(bucket *v1alpha1.Bucket) Update {
	if bucket.Generation == 0 {
		return Update{}
	}
	return Update{firstGeneration(bucket), bucket.Containers, removes(bucket.Operation)}
}

func firstGeneration(bucket *v1alpha1.Bucket) int64 {
	return cmp.Or(bucket.FirstGeneration, bucket.Generation)
}

func removes(o v1alpha1.Operation) bool {
	return o != v1alpha1.OperationUpdate && o != v1alpha1.OperationResize
}

// updates counts the reservations of updates.
func updates(h *v1alpha1.AdmissionHistory) int {
	n := 0
	for i := range h.Buckets {
		if h.Buckets[i].Generation > 0 {
			n++
		}
	}
	return n
}

// carryOver keeps in a renewed reservation what the old one was for, which may still happen: the pod goes when either of
// them is a removal, and an update is done when both are. A container that the old update has not restarted yet must be
// restarted once more for a later one: whether one restart is for both cannot be seen, and two is the safe answer. That of
// the same generation is no later one, but the same, asked again.
func carryOver(renewed, old *v1alpha1.Bucket) {
	carryOverOperation(renewed, old)
	if old.Generation == 0 {
		return
	}
	if renewed.Generation == 0 {
		renewed.Generation, renewed.FirstGeneration, renewed.Containers = old.Generation, old.FirstGeneration, old.Containers
		return
	}
	more := int32(0)
	if renewed.Generation > old.Generation {
		more = 1
	}
	first := min(renewed.Generation, firstGeneration(old))
	if renewed.Generation = max(renewed.Generation, old.Generation); first != renewed.Generation {
		renewed.FirstGeneration = first
	}
	containers := slices.Clone(renewed.Containers)
	for _, before := range old.Containers {
		i := slices.IndexFunc(containers, func(c v1alpha1.ContainerRestarts) bool { return c.Name == before.Name })
		if i < 0 {
			containers = append(containers, before)
		} else if containers[i].Restarts <= before.Restarts {
			containers[i].Restarts = before.Restarts + more
		}
	}
	renewed.Containers = containers
}
