// Package webhook sets up the webhook, which denies removals of pods that would violate a protector's floor.
//
// A review takes this path: package server reads it and asks review.Protection, whose Review takes it through numbered steps (review/review.go):
// removal.Parse turns it into a Request, reserve.Cores finds the protectors that cover the pod, package removal determines which of them the removal
// consumes budget of, and reserve.Cores reserves with each of them, all or none. Package wake wakes the clients that were denied when there is budget
// again, and package register keeps the registration in the clusters.
package webhook
