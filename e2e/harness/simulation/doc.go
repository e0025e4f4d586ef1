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
// In a fifth of the seeds, accidents and users lower the floors of several Deployments: bursts, cascades, and slow deletions, with
// confirmations, restarts, several leaders, lost grants and restores. What the release brake promises then (rule 13) is said and judged in
// judge_decreases.go and judge_grants.go.
//
// In a fifth of the seeds, floors are computed from what the workloads of the cells want. An oracle in judge_expectation.go judges by the
// stores' own history that no expectation falls unless a workload wants less.
//
// Clients relabel pods with a review (relabels.go), renew removals that never take effect (renewals.go) and remove pods by force (force.go),
// protectors use all criteria and exempt pods (criteria.go), and clocks are minutes off where protectors count by age (youngclocks.go), each in a
// fraction of the seeds. So are Cells deleted and created again, and silent cells discounted (topology.go), and pods updated and resized in place
// (updates.go).
//
// A process that is stopped by SIGSTOP is an approximation (freeze.go), since all goroutines of a run share one clock. Modelled: no request,
// answer or event passes, the ends of watches come late and all at once, writes that were computed before the stop are sent after it, and the
// leader election does not notice the stop until its next renewal is answered. Not modelled: timers, time-outs of requests and the clocks of
// the process run on, so that work whose input was there is done during the stop, and its time is up earlier than in a process that is stopped.
//
// Read scenario.go and decreases.go for what can happen, world.go, steps.go, accidents.go and faults.go for how, judge.go and status.go for what must
// hold.
package simulation
