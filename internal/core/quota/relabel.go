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

// carryOverOperation keeps in a renewed reservation the operation that ends last. A pod to be removed can disappear after it was
// relabeled, and a pod to be relabeled can leave the coverage after it was updated. Of two relabels it keeps the later version:
// attempts at the earlier one have failed by then.
func carryOverOperation(renewed, old *v1alpha1.Bucket) {
	version := max(relabelVersion(renewed), relabelVersion(old))
	relabel := v1alpha1.OperationRelabel
	if isRemoval(old.Operation) && (!isRemoval(renewed.Operation) || renewed.Operation == relabel && old.Operation != relabel) {
		renewed.Operation = cmp.Or(old.Operation, v1alpha1.OperationDelete) // a merged bucket does not store which operation it was
	}
	if renewed.PodVersion = 0; renewed.Operation == relabel {
		renewed.PodVersion = version
	}
}
