// Package simulation runs Breakwater's whole loop under adverse conditions in virtual time. The webhooks, aggregators and generator run
// their real code with their real clients and caches, on simulated API servers. Connections are slow, lossy, held and cut. Processes are
// killed and paused, clocks are set, and clients remove pods in storms. One seed is one run: each message reaches a process at an instant
// of its own, and the simulation orders what several goroutines do at one instant where the order matters. Two runs are the same if their
// Trace.Hash is equal.
//
// A judge sees every write of every cluster at the instant it happens. It derives the true state of the pods from the clusters' own
// history. It reports at once when the floor was broken, a reservation was lost or a count is wrong. When all faults have ended, every
// legal removal must succeed, and no other.
//
// In a fifth of the seeds, accidents and users lower the floors of several Deployments: bursts, cascades and slow deletions, with
// confirmations, restarts, several leaders, lost grants and restores. In two thirds of them, policies protect some of the Deployments
// (scenario/policies.go): they stop setting fields, and are deleted by users and by cascades. judge/decreases.go, judge/grants.go and
// judge/policies.go state and check what the release brake promises then (rule 13). The workers of a generator that
// write the status of policies are not ordered, so a seed with policies has several runs.
//
// In a fifth of the seeds, floors are computed from the replicas that the workloads of the cells want. An oracle in judge/expectation.go
// checks against the stores' own history that no expectation falls unless a workload wants less.
//
// DrawOwners puts the objects of operators above workloads, of namespaced and cluster scope, with a scale in pods, in another unit, with an
// error, or without one (rule 16). They are deleted and recreated, and pods survive the controllers that they name. In a third of its seeds,
// protectors name Rollouts whose scales select pods of one color, and only a change of the status moves the selector to the other color. The
// oracle is in judge/owners.go.
//
// DrawScope plays seeds of Draw, DrawShared and DrawShares in which API servers have removals reviewed only in namespaces with the label of
// aggregators (play/scope.go). judge/scope.go states which removals may go without a review.
//
// Each of the following happens in a fraction of the seeds. Clients relabel pods with a review, retry removals that never take effect, and
// remove pods by force. Protectors use all criteria and exempt pods. Clocks are minutes off where protectors count by age. Cells are deleted
// and recreated, and the pods of silent cells are discounted. Pods are updated and resized in place.
//
// A process that is stopped by SIGSTOP is an approximation (play/faults.go), since all goroutines of a run share one clock. Modeled: no
// request, answer or event passes; the ends of watches arrive late and all at once; writes that were computed before the stop are sent
// after it; and the leader election does not notice the stop until its next renewal is answered. Not modeled: timers, request timeouts
// and the clocks of the process keep running. Work whose input has arrived is therefore done during the stop, and deadlines pass earlier
// than in a process that is really stopped.
//
// The packages are, in the order in which a run needs them:
//
//   - scenario draws what happens from a seed. Read scenario/scenario.go and scenario/decreases.go first.
//   - play runs it: play/run.go has the phases, play/simulator.go says which part executes a step, and play/finalchecks.go has what is tried
//     when all faults have ended.
//   - judge says what must hold. judge/judge.go lists its parts, and judge/convergence.go has what must be true in the calm.
//   - apiserver, dice and trace are the API servers, the random draws of a run and its recording.
//
// This package has the tests that play seeds, and the corpus.
package simulation
