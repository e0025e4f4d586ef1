package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// maxReported bounds how many illegal admissions are reported separately.
const maxReported = 20

// operation is an admission, or a pod that became available, at some time from earliest to latest. In the model, a protector is a budget and a set of
// reserved UIDs:
//
//   - An admission of a UID is legal if the UID is already reserved, or if there is budget, which it then takes.
//   - A denial is always legal and changes nothing, so denials are left out.
//   - A gain, of a pod that became available, adds budget.
//
// The omissions of the model make it laxer, never stricter. A removal that was admitted and failed elsewhere takes no budget here. A pod
// that dies by itself tightens the budget only when a snapshot shows it, at a time that only Breakwater can tell. The count of available
// pods from the truth includes all of these.
type operation struct {
	gain             bool
	uid              types.UID
	name             string
	earliest, latest time.Duration
}

// illegal returns the number of admissions, and those that no order of the operations explains, each without the ones before it. It puts each operation
// at one time: a gain at its earliest, an admission at its latest. In an order that the model explains, moving a gain forward or an admission back leaves
// every other operation as much budget as it had, or more. So if there is such an order, this is one. Of several admissions of one UID the first to end
// takes the budget, and the others find the UID reserved.
func illegal(budget int, history []operation) (admitted int, found []string) {
	at := func(o operation) time.Duration {
		if o.gain {
			return o.earliest
		}
		return o.latest
	}
	ordered := slices.SortedStableFunc(slices.Values(history), func(a, b operation) int {
		if c := cmp.Compare(at(a), at(b)); c != 0 || a.gain == b.gain {
			return c
		}
		if a.gain {
			return -1
		}
		return 1
	})
	reserved := map[types.UID]bool{}
	for _, o := range ordered {
		switch {
		case o.gain:
			budget++
			continue
		case reserved[o.uid]:
		case budget > 0:
			reserved[o.uid] = true
			budget--
		case len(found) < maxReported:
			found = append(found, fmt.Sprintf("%s (UID %s) was admitted without budget between %s and %s", o.name, o.uid,
				o.earliest.Round(time.Millisecond), o.latest.Round(time.Millisecond)))
		}
		admitted++
	}
	return admitted, found
}

// operationsOf builds the model's history from the clients' records and the changes that cells stored. Requests that were refused, or that
// met a pod that was not available, charge nothing and are left out.
func operationsOf(requests []RemovalRequest, truths []Truth) []operation {
	history, answered := admissionsOf(requests, truths)
	for _, truth := range truths {
		gained := map[types.UID]time.Duration{}
		for _, fact := range truth.Facts {
			o := operation{uid: fact.UID, name: truth.Cell + "/" + fact.Pod, earliest: fact.Earliest, latest: fact.Latest}
			switch {
			case fact.Change == storm.Gained:
				gained[fact.UID] = fact.Earliest
				o.gain = true
				history = append(history, o)
			case fact.Change == storm.Removed && !answered[fact.UID]:
				// Another client asked (garbage collector, deletecollection), or the answer was lost. The removal was admitted at some
				// time before it was stored, and not before the pod was available.
				o.earliest = gained[fact.UID]
				history = append(history, o)
			}
		}
	}
	return history
}

// admissionsOf returns the removals whose admission a client saw, and their UIDs.
func admissionsOf(requests []RemovalRequest, truths []Truth) ([]operation, map[types.UID]bool) {
	removed := map[types.UID]Fact{}
	for _, truth := range truths {
		for _, fact := range truth.Facts {
			if fact.Change == storm.Removed {
				removed[fact.UID] = fact
			}
		}
	}
	var history []operation
	answered := map[types.UID]bool{}
	for _, req := range requests {
		fact, charged := removed[req.UID]
		if req.Outcome != storm.Admitted || !charged {
			continue
		}
		o := operation{uid: req.UID, name: req.Cell + "/" + req.Pod, earliest: req.Sent, latest: req.Answered}
		if req.Sent <= fact.Latest {
			// It may have taken the budget, and that was before the pod was removed.
			answered[req.UID] = true
			o.latest = min(o.latest, fact.Latest)
		}
		history = append(history, o)
	}
	return history, answered
}
