package simulation

import "fmt"

// report is what the judge has found: the failures, and the counts of what happened. All parts of the judge share it. The lock of the judge guards
// it.
type report struct {
	failures []string
	counts   Counts
	trace    *Trace
}

// fail records that the promise was broken.
func (r *report) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	r.failures = append(r.failures, text)
	r.trace.add("FAILURE: %s", text)
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
	Removals, Admitted, Refused, Effective, Writes, Races, Losses int
	// UsableDenials counts answers in the storm that must not deny for lack of budget.
	UsableDenials int
	// SlotMoves counts writes by which a shard took slots.
	SlotMoves int
	// Excused counts for each loosening of the judge how often it alone prevented a failure (judge_excuses.go).
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
	c.Refused += other.Refused
	c.Effective += other.Effective
	c.Writes += other.Writes
	c.Races += other.Races
	c.Losses += other.Losses
	c.UsableDenials += other.UsableDenials
	c.SlotMoves += other.SlotMoves
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
