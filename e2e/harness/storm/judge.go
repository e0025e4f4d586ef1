package storm

import (
	"cmp"
	"slices"
	"time"
)

// maxNodes bounds the search of Judge: about 50 MB.
const maxNodes = 2_000_000

// Judge counts the over-admissions of a record: removals after which fewer pods were available than the floor.
//
// The events of one stream happened in the order of the stream. Streams are not ordered against each other: each event happened at some
// time between its Earliest and its Seen. A gain in one cell that the recorder sees late can make a removal in another cell look like a
// breach. So Judge considers every order of all events that these bounds allow, and reports the one with the fewest over-admissions and,
// among those, with the highest minimum. The reported over-admissions are therefore certain: no order of the observed events excuses them.
// Judge misses a breach only if a gain in another cell, no further away than the bounds are wide, could have come first. Where there are
// no gains, as with pods that no controller replaces, all orders have the same number of over-admissions and the count is exact.
//
// The order found is the timeline, with each event as late as its bounds and order allow.
func Judge(record Record, floor int) Verdict {
	return judge(record, floor, maxNodes)
}

func judge(record Record, floor, limit int) Verdict {
	order, ok := leastBreach(record.Streams, floor, limit)
	if !ok {
		order = relaxedOrder(record.Streams)
	}
	verdict := evaluateOrder(record, floor, order)
	verdict.Relaxed = !ok
	return verdict
}

// relaxedOrder ignores the order in the streams. It puts every gain at its earliest, every removal when it was seen, and every drop late
// enough for any removal that may have come before it. At each time it has applied all gains that had really happened, and no loss that
// had not. So its total is never below the true one, and it never reports a floor as broken that held.
func relaxedOrder(streams []Stream) []placedEvent {
	var all []placedEvent
	var widest time.Duration
	for cell, stream := range streams {
		for i, event := range stream.Events {
			all = append(all, placedEvent{cell: cell, index: i, event: event})
			widest = max(widest, event.Seen-event.Earliest)
		}
	}
	for i := range all {
		switch event := &all[i].event; event.Change {
		case Gained:
			event.Seen = event.Earliest
		case Dropped:
			event.Seen += widest
		}
	}
	rank := func(p placedEvent) int { return slices.Index([]Change{Gained, Removed, Dropped}, p.event.Change) }
	slices.SortStableFunc(all, func(a, b placedEvent) int {
		return cmp.Or(cmp.Compare(a.event.Seen, b.event.Seen), cmp.Compare(rank(a), rank(b)))
	})
	return all
}

// placedEvent is one event in an order of all events.
type placedEvent struct {
	cell, index int
	event       Event
}

// evaluateOrder counts along an order and builds its timeline.
func evaluateOrder(record Record, floor int, order []placedEvent) Verdict {
	available := make([]int, len(record.Streams))
	total := 0
	for cell, stream := range record.Streams {
		available[cell] = stream.Baseline
		total += stream.Baseline
	}
	verdict := Verdict{MinAvailable: total}
	verdict.Timeline = append(verdict.Timeline, Point{Total: total, Cells: slices.Clone(available)})

	// Backwards: each event is as late as its own bound and its successors allow.
	times := make([]Event, len(order))
	for i := len(order) - 1; i >= 0; i-- {
		times[i] = order[i].event
		if i+1 < len(order) {
			times[i].Seen = min(times[i].Seen, times[i+1].Seen)
		}
	}
	for i, p := range order {
		total += p.event.Change.step()
		available[p.cell] += p.event.Change.step()
		verdict.MinAvailable = min(verdict.MinAvailable, total)
		if p.event.Change == Removed {
			verdict.Removals++
			if total < floor {
				verdict.OverAdmissions++
			}
		}
		verdict.Timeline = append(verdict.Timeline, Point{At: times[i].Seen, Total: total, Cells: slices.Clone(available)})
	}
	verdict.FinalAvailable = total
	end := record.Duration
	if n := len(order); n > 0 {
		end = max(end, times[n-1].Seen)
	}
	verdict.Timeline = append(verdict.Timeline, Point{At: end, Total: total, Cells: slices.Clone(available)})
	return verdict
}
