package quota

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Claim is the share of one request in a reservation. Several requests for one pod share a reservation. A request that all protectors
// admitted relies on it permanently, so that only the release of the last claim removes it. The zero value is no claim.
type Claim struct {
	// Token is the token of the reservation. Finding it there proves that the write of the request that made it succeeded.
	Token string
	// Joined reports that other requests hold the reservation too, one of which made it.
	Joined bool
	// Stored reports that the write that made the claim is known to have succeeded.
	Stored bool
}

// IsEmpty reports whether there is nothing to give back.
func (c Claim) IsEmpty() bool { return c.Token == "" }

// addClaim adds a claim to the reservation that a renewal replaces (rule 7). If its current holders may no longer give it back, no
// request may, and addClaim returns no claim.
func addClaim(renewed, old *v1alpha1.Bucket) Claim {
	if old.RevocableUntil == nil {
		return Claim{}
	}
	renewed.Token, renewed.Holders = old.Token, holderCount(old)+1
	return Claim{Token: old.Token, Joined: true}
}

// claimState is the state of a claim, by the stored reservation of its pod:
//
//	state           meaning                                                      ReleaseClaim
//	claimUnproven   no claim, or it has joined the reservation of another        keeps the reservation
//	                request and may not have been stored
//	claimEnded      the pod has no reservation, another one, or a merged one     keeps the reservation
//	claimShared     the claim and those of other requests hold the reservation   drops the claim
//	claimLast       the claim alone holds the reservation                        drops the reservation
type claimState int

const (
	claimUnproven claimState = iota
	claimEnded
	claimShared
	claimLast
)

// claimStateOf returns the state of a claim. bucket is the bucket of the pod's reservation; nil if there is none.
func claimStateOf(claim Claim, bucket *v1alpha1.Bucket) claimState {
	switch {
	case claim.IsEmpty() || claim.Joined && !claim.Stored:
		return claimUnproven
	case bucket == nil:
		return claimEnded
	case bucket.Token != claim.Token: // a merged bucket has no token
		return claimEnded
	case holderCount(bucket) > 1:
		return claimShared
	default:
		return claimLast
	}
}

// ReleaseClaim releases a claim, together with the reservation if it was the last one, and reports whether it did (rule 7). Call it once
// for each claim. It does not change the reservation if it cannot prove that the claim is part of it.
func ReleaseClaim(p *v1alpha1.PodProtector, cellID string, uid types.UID, claim Claim) bool {
	cell := CellOf(p, cellID)
	if cell == nil {
		return false
	}
	var bucket *v1alpha1.Bucket
	at, ok := findReservation(&cell.AdmissionHistory, uid)
	if ok {
		bucket = &cell.AdmissionHistory.Buckets[at.bucket]
	}
	switch claimStateOf(claim, bucket) {
	case claimShared:
		bucket.Holders--
		return true
	case claimLast:
		removeReservation(&cell.AdmissionHistory, at)
		return true
	default:
		return false
	}
}
