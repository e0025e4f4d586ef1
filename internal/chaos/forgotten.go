package chaos

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// relapse is a core that was taken back to its backup of before the storm. It believes then that every pod of that time
// is there, and has forgotten who was about to go.
type relapse struct {
	// began is when the restored core could not yet be asked, and the lost one not any more.
	began time.Duration
	// open are the reservations that were lost.
	open map[types.UID]bool
	// known is, of each cell, when every removal that was admitted by what the backup counted has taken effect.
	known map[string]time.Duration
}

// Forgotten are pods of a cell that a restored core counts and that are gone, or about to go: from when it can be asked
// until its cell is counted anew and all that was admitted before has taken effect. So many may be missing from the
// floor for so long, which Breakwater does not promise to prevent, and none more or later.
type Forgotten struct {
	Cell        string
	Pods        int
	From, Until time.Duration
}

// forgotten is what a relapse made the core forget. What a backup counted of a cell is no more than were ever available
// there before; pods that came since make up for as many that went, since both are counted anew at once. A pod that was
// on its way out is in no count of the time after, for as long as its request takes.
func (r *relapse) forgotten(truths []Truth) []Forgotten {
	if r == nil {
		return nil
	}
	var all []Forgotten
	for _, truth := range truths {
		now := len(truth.Baseline)
		most, left, leaving := now, now, 0
		for _, fact := range truth.Facts {
			switch {
			case fact.Change == storm.Removed && r.open[fact.UID] && fact.Latest > r.began:
				leaving++
				continue
			case fact.Earliest > r.began:
				continue
			case fact.Change == storm.Gained:
				now++
			default:
				now--
			}
			if most = max(most, now); fact.Latest <= r.began {
				left = now
			} else {
				left = min(left, now) // nobody knows on which side it was
			}
		}
		if pods := most - left + leaving; pods > 0 {
			all = append(all, Forgotten{Cell: truth.Cell, Pods: pods, From: r.began, Until: r.known[truth.Cell]})
		}
	}
	slices.SortStableFunc(all, func(a, b Forgotten) int { return cmp.Compare(a.Until, b.Until) })
	return all
}

// illusion is what was forgotten as a cell of its own, whose pods are there until they are known to be gone.
func (e Evidence) illusion() storm.Stream {
	stream := storm.Stream{Cell: "forgotten"}
	add := func(change storm.Change, f Forgotten, seen time.Duration) {
		for range f.Pods {
			stream.Events = append(stream.Events, storm.Event{Change: change, Pod: f.Cell, Earliest: f.From, Seen: seen})
		}
	}
	for _, f := range e.Forgotten {
		add(storm.Gained, f, f.From)
	}
	for _, f := range e.Forgotten {
		add(storm.Dropped, f, f.Until)
	}
	return stream
}
