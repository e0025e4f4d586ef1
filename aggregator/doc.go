// Package aggregator counts the pods of one cell for the protectors of one core cluster, and settles the reservations
// that the counts account for.
//
// A pod event takes this path. The stream (stream.go) passes it to the snapshot (snapshot.go). The snapshot keeps the
// parts of the pod that are counted (pod.go, labels.go), finds the protectors of the pod (membership.go) and enqueues
// them. After aggregationRate the reconciler (reconciler.go) counts from the newest snapshot (count.go). It settles
// reservations by the snapshot and, where the snapshot cannot decide, by a live read (sightings.go). It writes counts
// and settlement in one compare-and-swap.
//
// One process at a time leads a cell (setup.go). The knowledge of one leadership is held in a term (term.go) and is
// dropped with it: the next term lists the pods again, restarts all timers, and has a higher epoch (epoch.go).
package aggregator
