// Package webhook refuses removals of pods that would break a protector's floor.
//
// The way of a removal: the server (server.go) reads the review, removal.Parse makes a Request of it, the Protection (protection.go)
// finds the protectors that cover the pod in every core cluster (coverage.go, core.go), package removal says which of them it costs
// budget and words what they answer, and the Protection reserves with each of them, all or none (every.go). One protector's requests
// fly together (core.go): a flight reads the newest object, lets quota.Decide answer, and writes the reservations by compare-and-swap
// before anybody is told yes.
package webhook
