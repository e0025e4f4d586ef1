package quota

import (
	"cmp"
	"math"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A relabel removes an available pod from a protector's coverage and consumes budget like a removal (rule 14). The pod continues to
// exist, so that its reservation does not end with the pod. The reservation ends when a snapshot shows the pod at a later version
// than the reviewed one. An API server reviews each attempt to write a pod, and stores it only while the pod has the reviewed
// version. Hence a later version contains the change, or the change failed and is reviewed again.

// relabelVersion returns the version of the pod in the review of a relabel; 0 for all other reservations.
func relabelVersion(bucket *v1alpha1.Bucket) int64 {
	if bucket.Operation != v1alpha1.OperationRelabel {
		return 0
	}
	return cmp.Or(bucket.PodVersion, math.MaxInt64) // without a version, no version is known to be later
}

// effect is what an operation does to the pod, in the order in which the effects end:
//
//	effect           operations                             the pod
//	effectUpdate     Update, Resize                         is unavailable for a while
//	effectRelabel    Relabel                                leaves the coverage, and continues to exist
//	effectDisappear  all others; none in a merged bucket,   disappears
//	                 which does not store which they were
type effect int

const (
	effectUpdate effect = iota
	effectRelabel
	effectDisappear
)

func effectOf(o v1alpha1.Operation) effect {
	switch o {
	case v1alpha1.OperationUpdate, v1alpha1.OperationResize:
		return effectUpdate
	case v1alpha1.OperationRelabel:
		return effectRelabel
	default:
		return effectDisappear
	}
}

// carryOverOperation keeps in a renewed reservation the operation that ends last. A pod to be removed can disappear after it was
// relabeled, and a pod to be relabeled can leave the coverage after it was updated. Of two relabels it keeps the later version:
// attempts at the earlier one have failed by then.
func carryOverOperation(renewed, old *v1alpha1.Bucket) {
	version := max(relabelVersion(renewed), relabelVersion(old))
	if effectOf(old.Operation) > effectOf(renewed.Operation) {
		renewed.Operation = cmp.Or(old.Operation, v1alpha1.OperationDelete) // a merged bucket does not store which operation it was
	}
	if renewed.PodVersion = 0; renewed.Operation == v1alpha1.OperationRelabel {
		renewed.PodVersion = version
	}
}
