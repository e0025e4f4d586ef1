package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// report is whether a cell's aggregator reports, or, of one that is shared out, whether somebody does for each slot.
type report struct {
	// state is silent when any slot is, and alive when all are.
	state heartbeat.State
	// shared tells that the cell is shared out; then silent are the slots that nobody has reported on for too long.
	shared bool
	silent slot.Set
}

// of is the state of what counts the pods of a namespace.
func (r report) of(namespace string) heartbeat.State {
	switch {
	case !r.shared:
		return r.state
	case r.silent.Has(slot.Of(namespace)):
		return heartbeat.Silent
	case r.state == heartbeat.Silent:
		return heartbeat.Alive // another slot is
	default:
		return r.state
	}
}

// beats are the last heartbeats of the shards that have had each slot.
type beats [slot.Count]string

// observeSlots takes in what the shards of a cell have reported. A slot that nobody has keeps its last heartbeat, and falls silent
// with it.
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

// forgetPulses drops those of a Cell.
func (r *Reconciler) forgetPulses(whose string) {
	r.pulses.Forget(whose)
	r.forgetSlots(whose)
}

func (r *Reconciler) forgetSlots(whose string) {
	for n := range slot.Count {
		r.pulses.Forget(pulseOf(whose, n))
	}
}

// whoIsSilent names the slots of a cell that nobody reports on, and whose they are.
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
