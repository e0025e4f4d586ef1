// Package reserve reserves removals with protectors: it holds what the watches of the core clusters have shown, finds the protectors of a pod, and
// makes reservations in batches, each in one compare-and-swap.
//
// Cores.Covering finds the protectors (covering.go, coverage.go). Cores.Reserve reserves with each of them, all or none (reserve_all.go). Requests for
// one protector are batched (reserver.go): a batch reads the newest object, calls quota.Decide, and writes the reservations before any of the removals
// is admitted (batch_write.go). In a storm, one replica writes for all (forward.go).
package reserve
