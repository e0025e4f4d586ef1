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

// addClaim adds a claim to the reservation that a renewal replaces. If its current holders may no longer give it back, no request may,
// and join returns no claim.
func addClaim(renewed, old *v1alpha1.Bucket) Claim {
	if old.RevocableUntil == nil {
		return Claim{}
	}
	renewed.Token, renewed.Holders = old.Token, holderCount(old)+1
	return Claim{Token: old.Token, Joined: true}
}

// ReleaseClaim releases a claim, together with the reservation if it was the last one, and reports whether it did. Call it once for each
// claim. It does not change the reservation if it cannot prove that the claim is part of it: if the reservation is another one, if it
// was merged with others, or if the claim has joined it and may not have been stored.
func ReleaseClaim(p *v1alpha1.PodProtector, cellID string, uid types.UID, claim Claim) bool {
	cell := CellOf(p, cellID)
	if cell == nil || claim.IsEmpty() || claim.Joined && !claim.Stored {
		return false
	}
	at, ok := findReservation(&cell.AdmissionHistory, uid)
	if !ok {
		return false
	}
	bucket := &cell.AdmissionHistory.Buckets[at.bucket]
	switch {
	case bucket.Token != claim.Token:
		return false
	case holderCount(bucket) > 1:
		bucket.Holders--
	default:
		removeReservation(&cell.AdmissionHistory, at)
	}
	return true
}
