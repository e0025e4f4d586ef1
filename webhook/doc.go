// Package webhook refuses removals of pods that would violate a protector's floor.
//
// The request path: the server (server.go) reads the review, and removal.Parse turns it into a Request. The Protection
// (protection.go) finds the protectors that cover the pod in every core cluster (coverage.go, core.go). Package removal
// determines which of them the removal consumes budget of, and words the answers. The Protection reserves with each of
// them, all or none (every.go). Requests for one protector are batched (core.go): a batch reads the newest object,
// calls quota.Decide, and writes the reservations by compare-and-swap before the webhook admits any of the removals.
package webhook
