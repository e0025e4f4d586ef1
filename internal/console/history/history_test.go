package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

var start = time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)

func known(available, floor int32) history.Sample {
	return history.Sample{Available: available, Floor: floor, FloorKnown: true, Known: true}
}

// oracle is the slow reference implementation: it keeps everything.
type oracle struct {
	samples []entry
	denied  []entry
}

type entry struct {
	at       time.Time
	sample   history.Sample
	removals int32
}

// before returns the last sample before a time.
func (d *oracle) before(at time.Time) history.Sample {
	var s history.Sample
	for _, e := range d.samples {
		if e.at.Before(at) {
			s = e.sample
		}
	}
	return s
}

// slot returns the expected point of a slot.
func (d *oracle) slot(from time.Time, length time.Duration) history.Point {
	p := history.Point{At: from, Last: d.before(from.Add(length))}
	any := false
	add := func(s history.Sample) {
		if s.Known && (!any || s.Available < p.Lowest) {
			p.Lowest, any = s.Available, true
		}
	}
	add(d.before(from))
	for _, e := range d.samples {
		if !e.at.Before(from) && e.at.Before(from.Add(length)) {
			add(e.sample)
		}
	}
	for _, e := range d.denied {
		if !e.at.Before(from) && e.at.Before(from.Add(length)) {
			p.Denied += e.removals
		}
	}
	return p
}

func TestPointsMatchOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, d, now := history.New(), &oracle{}, start
		steps := rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, time.Second, 20 * time.Second, 7 * time.Minute, 5 * time.Hour})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(steps.Draw(t, "step"))
			if rapid.Bool().Draw(t, "refusal") {
				at := now.Add(-rapid.SampledFrom([]time.Duration{0, 2 * time.Second, time.Minute}).Draw(t, "late"))
				removals := rapid.Int32Range(1, 9).Draw(t, "removals")
				s.AddDenials(now, at, removals)
				d.denied = append(d.denied, entry{at: at, removals: removals})
				continue
			}
			sample := known(rapid.Int32Range(0, 3).Draw(t, "available"), rapid.Int32Range(0, 3).Draw(t, "floor"))
			s.Observe(now, sample)
			d.samples = append(d.samples, entry{at: now, sample: sample})
		}
		for _, view := range []struct{ window, slot time.Duration }{
			{history.FineKeep, history.FineSlot}, {time.Minute, history.FineSlot}, {time.Hour, history.CoarseSlot}, {history.CoarseKeep, history.CoarseSlot},
		} {
			matches(t, s.Points(now, view.window), d, now.Add(-view.window), view.slot)
		}
		if most := int(history.FineKeep/history.FineSlot+history.CoarseKeep/history.CoarseSlot) + 4; s.Size() > most {
			t.Fatalf("series has %d points, want fewer", s.Size())
		}
	})
}

// matches compares points with the diary, and checks that no slot with a change is missing.
func matches(t *rapid.T, points []history.Point, d *oracle, from time.Time, slot time.Duration) {
	told := map[time.Time]bool{}
	for i, p := range points {
		if i > 0 && !points[i-1].At.Before(p.At) {
			t.Fatalf("point %d at %s comes after %s", i, p.At, points[i-1].At)
		}
		if p.At.Before(from) {
			t.Fatalf("a point of %s is older than %s", p.At, from)
		}
		if p.At.Truncate(slot).Before(from) {
			if want := d.before(from.Add(slot)); i > 0 || p.Last != want && p.Last != d.before(from.Truncate(slot).Add(slot)) {
				t.Fatalf("window begins with %+v, want %+v", p.Last, want)
			}
			continue
		}
		told[p.At] = true
		if diff := cmp.Diff(d.slot(p.At, slot), p); diff != "" {
			t.Fatalf("slot %s (-want +got):\n%s", p.At, diff)
		}
	}
	for _, e := range append(append([]entry{}, d.samples...), d.denied...) {
		at := e.at.Truncate(slot)
		if changed := d.before(at) != d.slot(at, slot).Last || e.removals > 0; changed && !at.Before(from) && !told[at] {
			t.Fatalf("Points() has no point of slot %s", at)
		}
	}
}

func TestSeriesStaysOrderedIfClockGoesBack(t *testing.T) {
	s := history.New()
	s.Observe(start, known(5, 1))
	s.Observe(start.Add(-time.Hour), known(2, 1))
	want := []history.Point{{At: start, Last: known(2, 1), Lowest: 2}}
	if diff := cmp.Diff(want, s.Points(start, time.Minute)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSince(t *testing.T) {
	s := history.New()
	s.AddDenials(start, start.Add(-time.Minute), 1)
	if !s.Since().IsZero() {
		t.Errorf("Since() after a denial without a sample = %s, want zero", s.Since())
	}
	s.Observe(start, known(5, 1))
	s.Observe(start.Add(time.Hour), known(4, 1))
	if s.Since() != start {
		t.Errorf("Since() = %s, want the first sample", s.Since())
	}
	s.Observe(start.Add(30*time.Hour), known(3, 1))
	if want := start.Add(6 * time.Hour); s.Since() != want {
		t.Errorf("Since() = %s, want %s: older points are dropped", s.Since(), want)
	}
}

func TestHistoriesAreBounded(t *testing.T) {
	b, now := history.NewHistories[int](2000), start
	for i := range 40_000 {
		now = now.Add(time.Second)
		b.Observe(i%20, now, known(int32(i%7), 1))
		if b.Points() > 2000 {
			t.Fatalf("Points() = %d after %d samples", b.Points(), i)
		}
	}
	if b.Retention() >= history.CoarseKeep || b.Of(3).Latest().Floor != 1 {
		t.Errorf("Retention() = %s, and the last sample is %+v", b.Retention(), b.Of(3).Latest())
	}
	if since := b.Of(3).Since(); now.Sub(since) > b.Retention()+20*time.Second {
		t.Errorf("Since() = %s, but Keep() = %s", now.Sub(since), b.Retention())
	}
	for range 20 { // without further changes
		now = now.Add(time.Hour)
		b.Sweep(now)
	}
	if b.Retention() != history.CoarseKeep || b.Points() > 80 {
		t.Errorf("Retention() = %s with %d points", b.Retention(), b.Points())
	}
}

func TestHistoriesOfDeletedProtectorsAreKeptForAWhile(t *testing.T) {
	b := history.NewHistories[string](100)
	b.Observe("web", start, known(5, 1))
	b.MarkDeleted("web", start.Add(time.Minute))
	b.Sweep(start.Add(30 * time.Minute))
	b.Observe("web", start.Add(31*time.Minute), known(4, 1))
	points := b.Of("web").Points(start.Add(31*time.Minute), time.Hour)
	if len(points) != 3 || points[1].Last.Known || points[2].Lowest != 4 {
		t.Errorf("%+v", points)
	}
	b.MarkDeleted("web", start.Add(time.Hour))
	b.AddDenials("db", start.Add(time.Hour), start, 1)
	b.Sweep(start.Add(2 * time.Hour))
	if b.Of("web") != nil || b.Of("db") != nil {
		t.Error("history of a protector that was deleted an hour ago is still kept")
	}
	b.MarkDeleted("never", start)
	if b.Of("never") != nil {
		t.Error("Of() of an unknown protector is not nil")
	}
}

func TestRestoredHistoryHasGap(t *testing.T) {
	b := history.NewHistories[string](100)
	b.Observe("web", start, known(5, 1))
	b.Observe("web", start.Add(2*time.Minute), known(4, 1))
	saved, back := start.Add(5*time.Minute), start.Add(9*time.Minute)
	restored := history.NewHistories[string](100)
	for key, points := range b.All() {
		restored.Restore(key, back, saved, points)
	}
	restored.Observe("web", back, known(4, 1))
	for _, window := range []time.Duration{15 * time.Minute, time.Hour} {
		var got []string
		for _, p := range restored.Of("web").Points(back, window) {
			got = append(got, fmt.Sprintf("%s %t %d", p.At.Sub(start), p.Last.Known, p.Last.Available))
		}
		if diff := cmp.Diff([]string{"0s true 5", "2m0s true 4", "5m0s false 0", "9m0s true 4"}, got); diff != "" {
			t.Errorf("points of %s (-want +got):\n%s", window, diff)
		}
	}
	if since := restored.Of("web").Since(); since != start {
		t.Errorf("Since() = %s, want %s", since, start)
	}
	restored.Restore("old", back, saved, []history.Point{{At: start, Last: known(1, 1)}})
	restored.Sweep(back.Add(time.Hour))
	if restored.Of("old") != nil || restored.Of("web") == nil {
		t.Error("want only the restored protector that was observed again")
	}
}
