package quota

import (
	"cmp"
	"math"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A relabel takes an available pod out of a protector's coverage and consumes budget like a removal (rule 14). The pod lives on, so that its
// reservation does not end with the pod. It ends when a snapshot shows the pod at a later version than the one that was reviewed: an
// API server reviews each attempt to write a pod, and stores it only while the pod has the version that was reviewed. A later version
// hence contains the change, or the change failed and is reviewed again.

// relabelOf is the version of the pod that a relabel was reviewed for; 0 for all other reservations.
func relabelOf(bucket *v1alpha1.Bucket) int64 {
	if bucket.Operation != v1alpha1.OperationRelabel {
		return 0
	}
	return cmp.Or(bucket.PodVersion, math.MaxInt64) // without a version none is known to be later
}

// carryOverOperation keeps in a renewed reservation the operation that ends last: a pod that is to be removed can go after it was
// relabelled, and a pod that is to be relabelled can leave after it was updated. Of two relabels the later version is kept: attempts at
// the earlier one have failed by then.
func carryOverOperation(renewed, old *v1alpha1.Bucket) {
	version := max(relabelOf(renewed), relabelOf(old))
	relabel := v1alpha1.OperationRelabel
	if removes(old.Operation) && (!removes(renewed.Operation) || renewed.Operation == relabel && old.Operation != relabel) {
		renewed.Operation = cmp.Or(old.Operation, v1alpha1.OperationDelete) // a merged one has lost which it was
	}
	if renewed.PodVersion = 0; renewed.Operation == relabel {
		renewed.PodVersion = version
	}
}
