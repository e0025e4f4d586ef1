package storm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const slack = 500 * time.Millisecond

// at returns an event that happened at most slack before it was seen.
func at(millis int, change Change) Event {
	seen := time.Duration(millis) * time.Millisecond
	return Event{Change: change, Earliest: max(0, seen-slack), Seen: seen}
}

func TestJudge(t *testing.T) {
	for claim, c := range map[string]struct {
		streams                  []Stream
		floor                    int
		over, least, final, gone int
	}{
		"a storm that stops at the floor has no over-admission": {
			streams: []Stream{
				{Baseline: 2, Events: []Event{at(1000, Removed)}},
				{Baseline: 2, Events: []Event{at(1001, Removed)}},
			},
			floor: 2, over: 0, least: 2, final: 2, gone: 2,
		},
		"each removal below the floor counts once": {
			streams: []Stream{
				{Baseline: 2, Events: []Event{at(1000, Removed), at(1100, Removed)}},
				{Baseline: 2, Events: []Event{at(1050, Removed)}},
			},
			floor: 3, over: 2, least: 1, final: 1, gone: 3,
		},
		"simultaneous removals in two cells do not excuse each other": {
			streams: []Stream{
				{Baseline: 1, Events: []Event{at(1000, Removed)}},
				{Baseline: 1, Events: []Event{at(1000, Removed)}},
			},
			floor: 1, over: 1, least: 0, final: 0, gone: 2,
		},
		"a gain in another cell seen slightly late excuses a removal": {
			streams: []Stream{
				{Baseline: 2, Events: []Event{at(1000, Removed)}},
				{Baseline: 0, Events: []Event{at(1499, Gained)}},
			},
			floor: 2, over: 0, least: 2, final: 2, gone: 1,
		},
		"a gain in another cell seen much later does not": {
			streams: []Stream{
				{Baseline: 2, Events: []Event{at(1000, Removed)}},
				{Baseline: 0, Events: []Event{at(1501, Gained)}},
			},
			floor: 2, over: 1, least: 1, final: 2, gone: 1,
		},
		"a later gain in the same cell does not, however close": {
			streams: []Stream{{Baseline: 2, Events: []Event{at(1000, Removed), at(1001, Gained)}}},
			floor:   2, over: 1, least: 1, final: 2, gone: 1,
		},
		"a late stream's own removal is not moved behind its gains": {
			streams: []Stream{
				{Baseline: 1, Events: []Event{at(1400, Removed), at(1450, Gained)}},
				{Baseline: 1, Events: []Event{at(1200, Removed)}},
			},
			floor: 1, over: 0, least: 1, final: 1, gone: 2,
		},
		"one gain excuses one removal": {
			streams: []Stream{
				{Baseline: 2, Events: []Event{at(1000, Removed), at(1010, Removed)}},
				{Baseline: 0, Events: []Event{at(1200, Gained)}},
			},
			floor: 2, over: 1, least: 1, final: 1, gone: 2,
		},
		"a pod that fails by itself is not a removal": {
			streams: []Stream{{Baseline: 2, Events: []Event{at(1000, Dropped)}}},
			floor:   2, over: 0, least: 1, final: 1, gone: 0,
		},
		"a removal after a failure counts": {
			streams: []Stream{{Baseline: 3, Events: []Event{at(1000, Dropped), at(1001, Removed)}}},
			floor:   2, over: 1, least: 1, final: 1, gone: 1,
		},
		"no event": {streams: []Stream{{Baseline: 3}, {Baseline: 4}}, floor: 5, least: 7, final: 7},
	} {
		t.Run(claim, func(t *testing.T) {
			got := Judge(Record{Duration: 2 * time.Second, Streams: c.streams}, c.floor)
			want := [4]int{c.over, c.least, c.final, c.gone}
			if diff := cmp.Diff(want, [4]int{got.OverAdmissions, got.MinAvailable, got.FinalAvailable, got.Removals}); diff != "" {
				t.Errorf("over-admissions, minimum, final, removals: -want +got\n%s", diff)
			}
			if got.Relaxed {
				t.Error("the search gave up on a small record")
			}
		})
	}
}

func TestTimelineShowsEveryChangeByCell(t *testing.T) {
	got := Judge(Record{Duration: 3 * time.Second, Streams: []Stream{
		{Baseline: 2, Events: []Event{at(1000, Removed)}},
		{Baseline: 0, Events: []Event{at(1400, Gained)}},
	}}, 2).Timeline
	want := []Point{
		{Total: 2, Cells: []int{2, 0}},
		{At: time.Second, Total: 3, Cells: []int{2, 1}},
		{At: time.Second, Total: 2, Cells: []int{1, 1}},
		{At: 3 * time.Second, Total: 2, Cells: []int{1, 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestJudgeFallsBackWhenTheSearchIsTooLarge(t *testing.T) {
	record := Record{Streams: []Stream{
		{Baseline: 3, Events: []Event{at(1000, Removed), at(1100, Removed), at(1300, Gained)}},
		{Baseline: 3, Events: []Event{at(1050, Removed), at(1150, Removed), at(1350, Gained)}},
	}}
	got := judge(record, 5, 3)
	if !got.Relaxed || got.OverAdmissions > Judge(record, 5).OverAdmissions || got.Removals != 4 {
		t.Errorf("want a relaxed verdict that claims no more than the search does, got %+v", got)
	}
}

// drawStreams draws up to three streams of at most four events, close enough together to be entangled.
func drawStreams(t *rapid.T, changes ...Change) []Stream {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Stream {
		stream := Stream{Baseline: rapid.IntRange(0, 4).Draw(t, "baseline")}
		available, seen := stream.Baseline, 0
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			change := rapid.SampledFrom(changes).Draw(t, "change")
			if available+change.step() < 0 {
				continue
			}
			available += change.step()
			seen += rapid.IntRange(0, 400).Draw(t, "pause")
			stream.Events = append(stream.Events, at(seen, change))
		}
		return stream
	}), 1, 3).Draw(t, "streams")
}

func TestSearchAgreesWithTryingEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := drawStreams(t, Gained, Gained, Removed, Removed, Dropped)
		floor := rapid.IntRange(0, 8).Draw(t, "floor")
		over, least := bruteForce(streams, floor)
		got := Judge(Record{Streams: streams}, floor)
		if got.OverAdmissions != over || got.MinAvailable != least {
			t.Fatalf("over-admissions %d, minimum %d; trying every order gives %d and %d", got.OverAdmissions, got.MinAvailable, over, least)
		}
		relaxed := judge(Record{Streams: streams}, floor, 0)
		if (over == 0 && relaxed.OverAdmissions > 0) || relaxed.MinAvailable < least {
			t.Fatalf("the relaxed verdict claims a breach that the search excuses: %+v", relaxed)
		}
	})
}

// bruteForce tries every order and returns the fewest over-admissions and, among those orders, the highest minimum.
func bruteForce(streams []Stream, floor int) (over, least int) {
	over = -1
	var try func(order []placedEvent, next []int)
	try = func(order []placedEvent, next []int) {
		done := true
		for cell, i := range next {
			if i == len(streams[cell].Events) {
				continue
			}
			done = false
			event := streams[cell].Events[i]
			// event comes after all of order, so none of those may have happened only after it was seen.
			if slices.ContainsFunc(order, func(p placedEvent) bool { return p.event.Earliest > event.Seen }) {
				continue
			}
			following := slices.Clone(next)
			following[cell]++
			try(append(slices.Clone(order), placedEvent{cell: cell, index: i, event: event}), following)
		}
		if !done {
			return
		}
		v := evaluateOrder(Record{Streams: streams}, floor, order)
		if over < 0 || v.OverAdmissions < over || (v.OverAdmissions == over && v.MinAvailable > least) {
			over, least = v.OverAdmissions, v.MinAvailable
		}
	}
	try(nil, make([]int, len(streams)))
	return over, least
}

func TestWithoutGainsTheCountIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := drawStreams(t, Removed)
		floor := rapid.IntRange(0, 8).Draw(t, "floor")
		start, removals := 0, 0
		for _, stream := range streams {
			start += stream.Baseline
			removals += len(stream.Events)
		}
		want := min(removals, max(0, floor-(start-removals)))
		if got := Judge(Record{Streams: streams}, floor); got.OverAdmissions != want || got.MinAvailable != start-removals {
			t.Fatalf("want %d over-admissions and a minimum of %d, got %+v", want, start-removals, got)
		}
	})
}

// A run is drawn as it truly happened, then seen with a lag by each cell's stream.
func TestVerdictNeverExceedsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.IntRange(1, 3).Draw(t, "cells")
		streams := make([]Stream, cells)
		total := 0
		for c := range streams {
			streams[c].Baseline = rapid.IntRange(0, 4).Draw(t, "baseline")
			total += streams[c].Baseline
		}
		floor := rapid.IntRange(0, total).Draw(t, "floor")
		available := make([]int, cells)
		for c := range available {
			available[c] = streams[c].Baseline
		}
		seen := make([]time.Duration, cells)
		var now time.Duration
		truth := 0
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Millisecond
			c := rapid.IntRange(0, cells-1).Draw(t, "cell")
			change := rapid.SampledFrom([]Change{Gained, Removed}).Draw(t, "change")
			if change == Removed && available[c] == 0 {
				continue
			}
			available[c] += change.step()
			total += change.step()
			if change == Removed && total < floor {
				truth++
			}
			lag := time.Duration(rapid.IntRange(0, 500).Draw(t, "lag")) * time.Millisecond
			seen[c] = max(seen[c], now+lag)
			streams[c].Events = append(streams[c].Events, Event{Change: change, Earliest: max(0, seen[c]-slack), Seen: seen[c]})
		}
		got := Judge(Record{Streams: streams}, floor)
		if got.OverAdmissions > truth {
			t.Fatalf("Judge() found %d over-admissions, want at most %d", got.OverAdmissions, truth)
		}
		for i, p := range got.Timeline[1:] {
			if p.At < got.Timeline[i].At {
				t.Fatalf("the timeline decreases at point %d: %v", i+1, got.Timeline)
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	// Two cells of 60 pods that are removed and replaced without pause for ten seconds.
	record := Record{Streams: make([]Stream, 2)}
	for c := range record.Streams {
		record.Streams[c].Baseline = 30
		for i := range 1000 {
			record.Streams[c].Events = append(record.Streams[c].Events, at(i*10+c, []Change{Removed, Removed, Gained, Gained}[i%4]))
		}
	}
	for b.Loop() {
		if Judge(record, 58).Relaxed {
			b.Fatal("the search gave up")
		}
	}
}
