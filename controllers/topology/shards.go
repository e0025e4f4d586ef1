package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// report is whether a cell's aggregator reports, or, if the cell is sharded, whether a shard reports on each slot.
type report struct {
	// state is silent when any slot is, and alive when all are.
	state heartbeat.State
	// shared is true if the cell is sharded. silent has the slots on which no shard has reported for too long.
	shared bool
	silent slot.Set
}

// of returns the state of the aggregator or slot that counts the pods of a namespace.
func (r report) of(namespace string) heartbeat.State {
	switch {
	case !r.shared:
		return r.state
	case r.silent.Has(slot.Of(namespace)):
		return heartbeat.Silent
	case r.state == heartbeat.Silent:
		return heartbeat.Alive // another slot is silent
	default:
		return r.state
	}
}

// beats has, for each slot, the last heartbeat of the shard that had it.
type beats [slot.Count]string

// observeSlots records what the shards of a cell have reported. A slot that no shard has keeps its last heartbeat, and becomes silent when
// that gets too old.
func (r *Reconciler) observeSlots(cell *v1alpha1.Cell, last *beats) report {
	now, whose, state := r.Monotonic(), string(cell.UID), heartbeat.Alive
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		slots, err := slot.Parse(s.Slots)
		if err != nil || s.LastHeartbeat == nil {
			continue
		}
		for n := range slots.Each() {
			last[n] = fmt.Sprint(s.Holder, " ", s.LastHeartbeat.UnixMicro())
		}
	}
	is := report{shared: true}
	for n := range slot.Count {
		key := pulseOf(whose, n)
		r.pulses.Observe(key, last[n], now)
		switch r.pulses.State(key, cell.Spec.StaleAfterOrDefault(), now) {
		case heartbeat.Silent:
			is.silent = is.silent.With(n)
		case heartbeat.Unknown:
			state = heartbeat.Unknown
		}
	}
	if is.state = state; !is.silent.Empty() {
		is.state = heartbeat.Silent
	}
	return is
}

func pulseOf(whose string, n int) string { return whose + "/" + strconv.Itoa(n) }

// forgetPulses drops the pulses of a Cell.
func (r *Reconciler) forgetPulses(whose string) {
	r.pulses.Forget(whose)
	r.forgetSlots(whose)
}

func (r *Reconciler) forgetSlots(whose string) {
	for n := range slot.Count {
		r.pulses.Forget(pulseOf(whose, n))
	}
}

// whoIsSilent names the silent slots of a cell, and the shards that have them.
func whoIsSilent(cell *v1alpha1.Cell, silent slot.Set) string {
	left, parts := silent, []string{}
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		slots := slot.Recorded(s.Slots)
		if theirs := slots.And(silent); !theirs.Empty() {
			parts = append(parts, fmt.Sprintf("%s of shard %s", theirs, s.Name))
			left = left.Minus(slots)
		}
	}
	if !left.Empty() {
		parts = append(parts, fmt.Sprintf("%s of no shard", left))
	}
	return fmt.Sprintf("Nobody has reported on %d of %d slots for %s (%s)", silent.Len(), slot.Count, cell.Spec.StaleAfterOrDefault(), strings.Join(parts, ", "))
}
