package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
)

// report is what the judge has found: the failures, and the counts of what happened. All parts of the judge share it. The lock of the judge guards
// it.
type report struct {
	failures []string
	counts   Counts
	trace    *trace.Trace
}

// fail records that the promise was broken.
func (r *report) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	r.failures = append(r.failures, text)
	r.trace.Add("FAILURE: %s", text)
}

func (r *report) countExcuse(why Excuse) { r.counts.Excused[why]++ }

func (r *report) countCountExcuses(isOfEarlierRestore, isFewer, isNotSeenAlive bool) {
	if isOfEarlierRestore {
		r.countExcuse(excuseCountOfEarlierRestore)
	}
	switch {
	case isNotSeenAlive:
		r.countExcuse(excuseNotSeenAliveSince)
	case isFewer:
		r.countExcuse(excuseDeletedSinceSnapshot)
	}
}

// Counts count what happened in a simulation.
type Counts struct {
	Removals, Admitted, Denied, Effective, Writes, Races, Losses int
	// UsableDenials counts answers in the storm that must not deny for lack of budget.
	UsableDenials int
	// SlotMoves counts writes by which a shard took slots.
	SlotMoves int
	// Escrowed counts removals that were admitted by an escrow before they were named.
	Escrowed int
	// Excused counts for each loosening of the judge how often it alone prevented a failure (see Excuse).
	Excused ExcuseCounts
	// Decreases counts large decreases of floors that took effect within the limit. Confirmed counts those that were confirmed.
	Decreases, Confirmed int
	// Relabels counts those that took an available pod out of coverage.
	Relabels int
	// Restarts counts those by updates of available pods.
	Restarts int
	// Forced counts removals that took effect below the floor because their pods have the force-delete annotation.
	Forced int
	// Alone counts removals that took effect while their cell could not reach the core. ShareSteps counts changes of the shares that protectors record.
	Alone, ShareSteps int
	// Unreviewed counts requests that an API server did not have reviewed, for lack of the label of their namespace.
	Unreviewed int
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	c.Removals += other.Removals
	c.Admitted += other.Admitted
	c.Denied += other.Denied
	c.Effective += other.Effective
	c.Writes += other.Writes
	c.Races += other.Races
	c.Losses += other.Losses
	c.UsableDenials += other.UsableDenials
	c.SlotMoves += other.SlotMoves
	c.Escrowed += other.Escrowed
	c.Decreases += other.Decreases
	c.Confirmed += other.Confirmed
	c.Relabels += other.Relabels
	c.Restarts += other.Restarts
	c.Forced += other.Forced
	c.Alone += other.Alone
	c.ShareSteps += other.ShareSteps
	c.Unreviewed += other.Unreviewed
	c.Excused.add(other.Excused)
}

// Each loosening of the judge corresponds to a limit in "What is not promised" of docs/concepts/safety.md. It is counted whenever it alone prevents
// a failure, and a loosening that no seed needs is removed. judge_test.go shows for each that the judge still fails just outside of it.

// Excuse names a loosening.
type Excuse string

const (
	// "Pods that die by themselves": they tighten the budget when a snapshot shows it, and not before.
	lossByItself Excuse = "a pod was lost by itself"
	// "The readiness race".
	lossByReadinessRace Excuse = "a pod was lost by the readiness race"
	// "What it rests on", 5: a restored cell has lost all changes after its backup.
	lossByRestore Excuse = "a pod was lost when its cell was restored"
	// "Labels that change with the status": a protector that lists operations without Relabel does not guard labels.
	lossRelabeled Excuse = "a pod was relabeled out of a protector that does not guard labels"
	// A protector that does not list Update or Resize does not guard them.
	lossUnguarded Excuse = "a pod was restarted by an update that the protector does not guard"
	// "An update that is overdue": the reservation is dropped after updateTimeoutSeconds.
	lossOverdue Excuse = "a pod was restarted by an update that was given up"
	// docs/how-to/install.md, "What depends on the webhook": the API server does not have it reviewed, and the protector says so, or cannot know it yet.
	lossUnlabeled Excuse = "a pod was removed in a namespace without the label of namespaces with protectors"
	// docs/concepts/overview.md: an aggregationSelector counts pods that may be removed at any time.
	lossUncovered Excuse = "a pod went that a protector counts and does not protect"
	// "Break-glass removals": they go below the floor, and later decisions account for them by their reservations.
	lossForced Excuse = "a pod was removed by force"
	// "What a webhook has not heard of".
	lossUnseenProtector Excuse = "a pod was lost by a webhook that had not heard of the protector"
	// "What a webhook has not heard of": with a floor of 0 nothing is reserved, and the floor may be above 0 when the removal takes
	// effect.
	lossZeroFloor Excuse = "a pod was lost that a floor of zero admitted"
	// "A webhook that begins after its core was restored".
	lossWebhookAfterRestore Excuse = "a pod was lost by a webhook that began after a restore of the core"
	// "The budget of the brake after damage" states the same for grants: a protector that a restore brings back has no record of the pods
	// that were removed while it did not exist.
	lossWhileProtectorMissing Excuse = "a pod went while its protector did not exist"

	// "Break-glass removals": while the core is unreachable they are not reserved.
	excuseForcedUnreserved Excuse = "an effect by force was not reserved"
	excuseForcedAnswer     Excuse = "an answer by force was not reserved"
	excuseForcedDrop       Excuse = "a reservation left that a removal by force did not renew"

	excuseOverdue     Excuse = "an effect of an update that was given up was not reserved"
	excuseOverdueDrop Excuse = "a reservation left of an update that was given up"

	excuseUnseenProtector     Excuse = "the webhook of an effect had not heard of the protector"
	excuseZeroFloor           Excuse = "an effect was reviewed under a floor of zero"
	excuseWebhookAfterRestore Excuse = "the webhook of an effect began after a restore of the core"

	excuseUnseenProtectorAnswer Excuse = "the webhook of an answer had not heard of the protector"
	excuseZeroFloorAnswer       Excuse = "an answer was decided under a floor of zero"
	excuseRestoreLostAnswer     Excuse = "the reservation of an answer was lost with a core"
	excuseRecreatedAnswer       Excuse = "the protector of an answer was recreated, and does not have its status yet"
	excuseCountBeforeRestore    Excuse = "the counts of an answer are of before a restore of the cell"

	excuseNewerList       Excuse = "a reservation left by a list that is newer than the snapshot"
	excuseRestoreLostDrop Excuse = "a reservation left that a core had lost in part"
	excuseZeroFloorDrop   Excuse = "a reservation left of a pod that was reviewed under a floor of zero"

	excuseCountOfEarlierRestore Excuse = "a count is of before a restore of the cell"
	excuseDeletedSinceSnapshot  Excuse = "a count leaves out what had gone since its snapshot"
	// "What the webhook and the aggregator do", rule 4: a pod that became available by its age counts once it was seen alive since then.
	excuseNotSeenAliveSince Excuse = "a count leaves out a pod that was not seen alive since it became available"
)

// ExcuseCounts is how often each loosening was needed.
type ExcuseCounts map[Excuse]int

func (e ExcuseCounts) add(other ExcuseCounts) {
	for why, n := range other {
		e[why] += n
	}
}

// countExcusedPods counts the pods that were lost without a charged removal since the snapshots of a decision. It counts each reason without
// which too few of the missing pods are excused.
func (j *effectJudge) countExcusedPods(w *watchedProtector, decided decision, counts func(cell string) bool, now time.Time, missing int) int {
	sum := func(exceptReason Excuse) int {
		n := 0
		for name, cell := range j.history.cells {
			if counts(name) {
				n += cell.countLosses(decided.snapshots[name], w, decided.version, now, exceptReason)
			}
		}
		return n
	}
	all := sum("")
	if missing <= 0 || all < missing {
		return all
	}
	for _, why := range slices.Sorted(maps.Keys(j.history.lossReasons())) {
		if sum(why) < missing {
			j.report.countExcuse(why)
		}
	}
	return all
}

// lossReasons returns the reasons of all losses so far.
func (h *clusterHistory) lossReasons() map[Excuse]bool {
	reasons := map[Excuse]bool{}
	for _, cell := range h.cells {
		for _, l := range cell.losses {
			reasons[l.excuse] = true
		}
	}
	return reasons
}
