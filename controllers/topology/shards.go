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
	// sharded is true if the cell is sharded. silent has the slots on which no shard has reported for too long.
	sharded bool
	silent  slot.Set
}

// stateFor returns the state of the aggregator or slot that counts the pods of a namespace.
func (r report) stateFor(namespace string) heartbeat.State {
	switch {
	case !r.sharded:
		return r.state
	case r.silent.Has(slot.Of(namespace)):
		return heartbeat.Silent
	case r.state == heartbeat.Silent:
		return heartbeat.Alive // another slot is silent
	default:
		return r.state
	}
}

// slotHeartbeats has, for each slot, the last heartbeat of the shard that had it.
type slotHeartbeats [slot.Count]string

// observeSlots records what the shards of a cell have reported. A slot that no shard has keeps its last heartbeat, and becomes silent when
// that gets too old.
func (r *Reconciler) observeSlots(cell *v1alpha1.Cell, last *slotHeartbeats) report {
	now, uid, state := r.Monotonic(), string(cell.UID), heartbeat.Alive
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
	current := report{sharded: true}
	for n := range slot.Count {
		key := slotKey(uid, n)
		r.heartbeats.Observe(key, last[n], now)
		switch r.heartbeats.State(key, cell.Spec.StaleAfterOrDefault(), now) {
		case heartbeat.Silent:
			current.silent = current.silent.With(n)
		case heartbeat.Unknown:
			state = heartbeat.Unknown
		}
	}
	if current.state = state; !current.silent.Empty() {
		current.state = heartbeat.Silent
	}
	return current
}

func slotKey(uid string, n int) string { return uid + "/" + strconv.Itoa(n) }

// forgetHeartbeats drops the pulses of a Cell.
func (r *Reconciler) forgetHeartbeats(uid string) {
	r.heartbeats.Forget(uid)
	r.forgetSlotHeartbeats(uid)
}

func (r *Reconciler) forgetSlotHeartbeats(uid string) {
	for n := range slot.Count {
		r.heartbeats.Forget(slotKey(uid, n))
	}
}

// describeSilentSlots names the silent slots of a cell, and the shards that have them.
func describeSilentSlots(cell *v1alpha1.Cell, silent slot.Set) string {
	unassigned, parts := silent, []string{}
	for i := range cell.Status.Shards {
		s := &cell.Status.Shards[i]
		slots := slot.Recorded(s.Slots)
		if shardSilent := slots.And(silent); !shardSilent.Empty() {
			parts = append(parts, fmt.Sprintf("%s of shard %s", shardSilent, s.Name))
			unassigned = unassigned.Minus(slots)
		}
	}
	if !unassigned.Empty() {
		parts = append(parts, fmt.Sprintf("%s of no shard", unassigned))
	}
	return fmt.Sprintf("No shard has reported on %d of %d slots for %s (%s)", silent.Len(), slot.Count, cell.Spec.StaleAfterOrDefault(), strings.Join(parts, ", "))
}
