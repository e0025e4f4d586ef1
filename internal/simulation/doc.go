// Package simulation plays Breakwater's loop against the worst of worlds, in virtual time: the real code of webhooks,
// aggregators and generator, with their real clients and caches, over simulated apiservers whose connections are slow,
// lossy, held and cut, while processes are killed and paused, clocks are set, and clients remove pods in storms. One seed
// is one run: what reaches a process comes at an instant of its own, and what several goroutines do at one instant is put in
// order where it matters. Trace.Hash tells whether two runs are the same.
//
// A judge sees every write of every cluster at the instant it happens. It takes the truth about pods from the clusters'
// own history and says at once when the floor was broken, a reservation was lost or a count is not true. When all faults
// have ended, every removal that is legal must succeed, and no other.
//
// Read scenario.go for what can happen, world.go, steps.go and faults.go for how, judge.go and status.go for what must
// hold.
package simulation
