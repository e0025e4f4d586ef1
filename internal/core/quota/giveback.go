package quota

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Claim is the part that one request has in a reservation. Several requests for one pod share a reservation, and
// whoever is admitted by all protectors relies on it for good: it goes only with the last claim. Zero is none.
type Claim struct {
	// Token is the reservation's. That it is found there proves that the write of the maker succeeded.
	Token string
	// Joined tells that others hold the reservation too, one of whom has made it.
	Joined bool
	// Stored tells that the write that made the claim is known to have succeeded.
	Stored bool
}

// None tells whether there is nothing to give back.
func (c Claim) None() bool { return c.Token == "" }

// join makes the renewal of a reservation count with those who hold it already. When those may not give back any more,
// nobody may: the claim is none.
func join(renewed, old *v1alpha1.Bucket) Claim {
	if old.RevocableUntil == nil {
		return Claim{}
	}
	renewed.Token, renewed.Holders = old.Token, holders(old)+1
	return Claim{Token: old.Token, Joined: true}
}

// GiveBack takes a claim back, with the reservation if nobody else holds it, and reports whether it did. Ask it once
// for each claim. It leaves the reservation alone when it cannot be told that the claim is in it: when the reservation
// is another one, when it was merged with others, or when the claim has joined it and may not have been stored.
func GiveBack(p *v1alpha1.PodProtector, cellID string, uid types.UID, claim Claim) bool {
	cell := CellOf(p, cellID)
	if cell == nil || claim.None() || claim.Joined && !claim.Stored {
		return false
	}
	at, ok := find(&cell.AdmissionHistory, uid)
	if !ok {
		return false
	}
	bucket := &cell.AdmissionHistory.Buckets[at.bucket]
	switch {
	case bucket.Token != claim.Token:
		return false
	case holders(bucket) > 1:
		bucket.Holders--
	default:
		remove(&cell.AdmissionHistory, at)
	}
	return true
}
