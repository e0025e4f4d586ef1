package quota

import (
	"cmp"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// maxUpdates is the maximum number of pods of a cell under update at once: each has its own bucket in the status.
const maxUpdates = 1000

// Update is one or several changes of a pod that make it unavailable for a while. It has taken effect once the pod has the
// generation. It is done once the pod's status has observed it, the containers have restarted that often, and the pod is available.
type Update struct {
	// Generation is the generation of the first change, which may be the only one that takes effect.
	Generation int64
	Containers []v1alpha1.ContainerRestarts
	// Removal reports that the pod is also to be removed or relabeled.
	Removal bool
}

// IsEmpty reports whether there is no update.
func (u *Update) IsEmpty() bool { return u.Generation == 0 }

func updateOf(bucket *v1alpha1.Bucket) Update {
	if bucket.Generation == 0 {
		return Update{}
	}
	return Update{firstGeneration(bucket), bucket.Containers, effectOf(bucket.Operation) > effectUpdate}
}

func firstGeneration(bucket *v1alpha1.Bucket) int64 {
	return cmp.Or(bucket.FirstGeneration, bucket.Generation)
}

// openUpdates returns the number of reservations of updates.
func openUpdates(h *v1alpha1.AdmissionHistory) int {
	n := 0
	for i := range h.Buckets {
		if h.Buckets[i].Generation > 0 {
			n++
		}
	}
	return n
}

// carryOver keeps in a renewed reservation the purpose of the old one, which may still happen (rule 2). The pod will disappear if either of
// them is a removal, and an update is done when both are. A container that the old update has not restarted yet must restart once
// more for a later update. One restart might serve both, but that cannot be observed, and two is the safe answer. An update with the
// same generation is not a later one but a repetition.
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
