// Package webhook refuses removals of pods that would violate a protector's floor.
//
// The request path: package server reads the review, and asks the Protection (protection.go), which lists its parts in order. removal.Parse turns
// the review into a Request (pod_review.go). The decider finds the protectors that cover the pod in every core cluster (decider.go, coverage.go),
// and package removal determines which of them the removal consumes budget of, and words the answers. The Protection reserves with each of them,
// all or none (reserve_all.go). Requests for one protector are batched (reserver.go): a batch reads the newest object, calls quota.Decide, and
// writes the reservations by compare-and-swap before the webhook admits any of the removals (batch_write.go).
package webhook
