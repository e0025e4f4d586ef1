package aggregator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// expectation is how many pods the workloads of a cell want, of those that own pods of a protector.
type expectation struct {
	replicas int32
	retained []v1alpha1.RetainedOwner
}

// found is what became of the search for the workload at the top of an owner.
type found struct {
	// workload is the owner that nobody else controls. Of one that is gone it is the last that is known.
	workload owner
	replicas int32
	gone     bool
}

// errOwnerless only another spec, or other pods, can mend.
var errOwnerless = errors.New("have no controller that tells how many are expected: set spec.expectedReplicas")

// mostRetained bounds the owners that a status keeps.
const mostRetained = 64

// expect adds up what the workloads want that own these pods, each once: a Deployment has several ReplicaSets. search finds
// the workload of an owner. One that is gone is still expected, as the policy says, for as long as pods of it are there:
// at its last known size, or that of stored. Who has never seen it goes by what is left of all that was expected, since it
// went while nobody looked.
func expect(
	owners map[owner]int32, stored *v1alpha1.Aggregation, policy v1alpha1.TargetRemovalPolicy, search func(owner) (found, error),
) (expectation, error) {
	if alone := owners[nobody()]; alone > 0 {
		return expectation{}, fmt.Errorf("%d pods %w", alone, errOwnerless)
	}
	sizes, gone, pods := map[owner]int32{}, map[owner]bool{}, map[owner]int32{}
	var failed []error
	for _, o := range slices.SortedFunc(maps.Keys(owners), byUID) {
		top, err := search(o)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sizes[top.workload] = max(sizes[top.workload], top.replicas)
		gone[top.workload] = top.gone
		pods[top.workload] += owners[o]
	}
	if len(failed) > 0 {
		return expectation{}, errors.Join(failed...)
	}
	var e expectation
	unseen := -1 // the first of e.retained whose size nobody knows
	for _, workload := range slices.SortedFunc(maps.Keys(sizes), byUID) {
		size := sizes[workload]
		switch {
		case !gone[workload]:
			e.replicas += size
		case policy != v1alpha1.TargetRemovalRelease:
			if size = max(size, sizeOf(stored.RetainedOwners, workload.uid)); size == 0 && unseen < 0 {
				unseen = len(e.retained)
			}
			size = max(size, pods[workload])
			e.replicas += size
			e.retained = append(e.retained, v1alpha1.RetainedOwner{
				Kind: workload.kind, Name: workload.name, UID: workload.uid, Replicas: size,
			})
		}
	}
	if stored.ExpectedReplicas != nil && unseen >= 0 && *stored.ExpectedReplicas > e.replicas {
		e.retained[unseen].Replicas += *stored.ExpectedReplicas - e.replicas
		e.replicas = *stored.ExpectedReplicas
	}
	e.retained = e.retained[:min(len(e.retained), mostRetained)]
	return e, nil
}

func byUID(a, b owner) int { return cmp.Compare(a.uid, b.uid) }

func sizeOf(retained []v1alpha1.RetainedOwner, uid types.UID) int32 {
	for _, r := range retained {
		if r.UID == uid {
			return r.Replicas
		}
	}
	return 0
}
