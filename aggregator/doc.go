// Package aggregator counts the pods of one cell for the protectors of one core cluster, and settles the
// reservations that the counts account for.
//
// The way of a pod event: the stream (stream.go) hands it to the snapshot (snapshot.go), which keeps of the pod
// what is counted (pod.go, labels.go), finds its protectors (membership.go) and puts them into the queue; when
// aggregationRate has passed the reconciler (reconciler.go) counts from the newest snapshot (count.go), settles by
// what the snapshot and, where it cannot tell, a live read show (sightings.go), and writes both by one
// compare-and-swap.
//
// One process at a time leads a cell (setup.go). What one leadership knows lives in a term (term.go) and ends
// with it: the next one lists the pods anew, starts all timers anew, and has a higher epoch (epoch.go).
package aggregator
