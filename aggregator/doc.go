// Package aggregator counts the pods of one cell for the protectors of one core cluster, and settles the reservations
// that the counts account for.
//
// A pod event takes this path. The stream (stream.go, stream_filter.go) passes it to the snapshot (snapshot.go). The
// snapshot keeps the parts of the pod that are counted (pod_set.go, pod.go, labels.go), or the end of the pod
// (removed_pods.go), finds the protectors of the pod (covered_pods.go) and enqueues them (notifier.go). After
// aggregationRate the reconciler (reconciler.go) takes the steps of one aggregation (aggregate.go). It counts from the
// newest snapshot (counting.go). It settles reservations by the snapshot and, where the snapshot cannot decide, by a live
// read (observed_pods.go). It writes counts and settlement in one compare-and-swap.
//
// One process at a time leads a cell (setup.go), or each shard of a ring leads some slots of it (shared_cell.go); ownership
// (ownership.go) hides the difference. The state of one leadership (leadership.go) is dropped with it: the next
// leadership lists the pods again, restarts all timers, and has a higher epoch (epoch.go). The report whether the shares of
// the cell can move outlives leaderships (share_monitor.go, share_state.go).
package aggregator
