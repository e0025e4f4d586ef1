// Package leaseholder is about the holder in the Lease of a shard, which shards and the sharder must read alike.
package leaseholder

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Revoked is the holder of a Lease that the sharder has taken from a shard which may still work.
const Revoked = "breakwater-sharder"

// MaxLeaseSeconds is the longest lease duration that a shard may request, as in a ClusterRing.
const MaxLeaseSeconds = 3600

// Of returns the holder of a Lease. It is empty if there is none.
func Of(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Returning returns the holder for the Lease of a shard that has stopped and will come back. The holder of an incarnation of the
// shard begins with it, followed by a text that distinguishes the incarnation from others.
func Returning(shard string) string { return shard + "_" }

// Is reports whether the holder of a Lease is a shard: an incarnation of it, or one that will come back.
func Is(lease *coordinationv1.Lease, shard string) bool {
	return strings.HasPrefix(Of(lease), Returning(shard))
}
