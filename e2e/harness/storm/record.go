package storm

import (
	"fmt"
	"time"
)

// Change is a change of the availability of one pod.
type Change int8

const (
	// Gained means that the pod became available.
	Gained Change = iota
	// Dropped means that the pod stopped being available by itself: it became unready, or finished.
	Dropped
	// Removed means that the pod was available, and is terminating or deleted.
	Removed
)

func (c Change) String() string {
	switch c {
	case Gained:
		return "gained"
	case Dropped:
		return "dropped"
	case Removed:
		return "removed"
	}
	return fmt.Sprintf("Change(%d)", int8(c))
}

// step returns the difference that the change makes to the number of available pods.
func (c Change) step() int {
	if c == Gained {
		return 1
	}
	return -1
}

// Event is one change, as its cell's watch stream showed it. Times count from the start of the record.
type Event struct {
	Change Change
	Pod    string
	// Earliest and Seen bound when it happened.
	Earliest, Seen time.Duration
}

// Stream is the observation of one cell: how many pods were available at first, then the changes in the order in which they happened. Seen
// never decreases.
type Stream struct {
	Cell     string
	Baseline int
	Events   []Event
}

// Record is the observation of all cells.
type Record struct {
	Start    time.Time
	Duration time.Duration
	Streams  []Stream
}

// Point is the number of available pods at one time, in all and by cell in the order of the record's streams.
type Point struct {
	At    time.Duration
	Total int
	Cells []int
}

// Verdict is what a record proves.
type Verdict struct {
	// Removals is the number of removals. OverAdmissions is how many of them left fewer available pods than the floor. It is 0 unless the
	// floor was certainly broken: see Judge.
	Removals, OverAdmissions int
	// MinAvailable and FinalAvailable are the lowest and the last total of the timeline.
	MinAvailable, FinalAvailable int
	// Timeline holds a point for the start, each change, and the end.
	Timeline []Point
	// Relaxed reports that the record was too entangled to search: OverAdmissions is then a weaker bound.
	Relaxed bool
}
