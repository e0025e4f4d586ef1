// Package aggregator counts the pods of one cell for the protectors of one core cluster, and settles the reservations
// that the counts account for.
//
// A pod event takes this path. The snapshot (package snapshot) keeps the parts of the pod that are counted, or the end of
// the pod, and enqueues the protectors of the pod (enqueuer.go). After their aggregation rate the reconciler (reconciler.go)
// takes the steps of one aggregation (reconciler_aggregate.go). It counts from the newest snapshot. It settles reservations by the
// snapshot and, where the snapshot cannot decide, by a live read (observed_pods.go). It determines what workloads request
// (package workloads), and moves the share of the cell (package shares). It writes counts and settlement in one compare-and-swap.
//
// One process at a time leads a cell (setup.go), or each shard of a ring leads some slots of it (shared_cell.go); package
// ownership hides the difference. The state of one leadership (leadership.go) is dropped with it: the next leadership lists
// the pods again, restarts all timers, and has a higher epoch. The report whether the shares of the cell can move outlives
// leaderships.
package aggregator
