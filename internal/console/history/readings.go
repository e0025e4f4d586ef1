package history

import (
	"slices"
	"time"
)

// gapIntervals is how many scrape intervals without a reading are a gap.
const gapIntervals = 3

// Reading is a value of a metric at a time.
type Reading struct {
	At    time.Time
	Value float64
}

// Readings are the metrics of a protector from a database of metrics, such as Prometheus. Several processes can have written parts.
type Readings struct {
	Available, Floor, Reserved []Reading
	// Denied are counters of denied removals, one for each process.
	Denied [][]Reading
}

// Points returns the history that the readings show, up to a time. Where readings are missing, nothing is known.
func (r Readings) Points(until time.Time) []Point {
	byTime := func(a, b Reading) int { return a.At.Compare(b.At) }
	available := slices.Clone(r.Available)
	slices.SortStableFunc(available, byTime)
	available = slices.CompactFunc(available, func(a, b Reading) bool { return a.At.Equal(b.At) })
	interval := medianInterval(available)
	floor, reserved := valuesByTime(r.Floor), valuesByTime(r.Reserved)
	t := tier{slot: FineSlot}
	for i, reading := range available {
		sample := Sample{Available: int32(reading.Value), Known: true, Reserved: int32(reserved[reading.At.UnixMilli()])}
		if value, ok := floor[reading.At.UnixMilli()]; ok {
			sample.Floor, sample.FloorKnown = int32(value), true
		}
		t.observe(reading.At, sample)
		next := until
		if i+1 < len(available) {
			next = available[i+1].At
		}
		if next.Sub(reading.At) > gapIntervals*interval {
			t.observe(reading.At.Add(interval), Sample{})
		}
	}
	for _, counter := range r.Denied {
		slices.SortStableFunc(counter, byTime)
		for i, reading := range counter {
			if n := increase(counter, i, available); n > 0 {
				t.addDenials(reading.At, int32(min(n, 1<<30)))
			}
		}
	}
	return t.points
}

// increase returns by how much a counter grew up to a reading. A counter begins with the first denial: its first value counts if
// the database had other readings before.
func increase(counter []Reading, at int, others []Reading) float64 {
	value := counter[at].Value
	switch {
	case at > 0 && value >= counter[at-1].Value:
		return value - counter[at-1].Value
	case at > 0: // the process restarted
		return value
	case len(others) > 0 && others[0].At.Before(counter[0].At):
		return value
	default:
		return 0
	}
}

// medianInterval returns the usual time between readings, at least a second.
func medianInterval(readings []Reading) time.Duration {
	var all []time.Duration
	for i := 1; i < len(readings); i++ {
		all = append(all, readings[i].At.Sub(readings[i-1].At))
	}
	if len(all) == 0 {
		return CoarseSlot
	}
	slices.Sort(all)
	return max(all[len(all)/2], time.Second)
}

func valuesByTime(readings []Reading) map[int64]float64 {
	values := make(map[int64]float64, len(readings))
	for _, r := range readings {
		values[r.At.UnixMilli()] = r.Value
	}
	return values
}
