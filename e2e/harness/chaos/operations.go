package chaos

import (
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// operationsOf builds the model's history from the clients' records and the changes that cells stored. Requests that were refused, or that
// met a pod that was not available, charge nothing and are left out.
func operationsOf(requests []RemovalRequest, truths []Truth) []porcupine.Operation {
	history, answered := admissionsOf(requests, truths)
	for _, truth := range truths {
		gained := map[types.UID]time.Duration{}
		for _, fact := range truth.Facts {
			op := porcupine.Operation{Input: operation{uid: fact.UID, name: truth.Cell + "/" + fact.Pod}, Return: int64(fact.Latest)}
			switch {
			case fact.Change == storm.Gained:
				gained[fact.UID] = fact.Earliest
				op.Input = operation{gain: true, uid: fact.UID, name: truth.Cell + "/" + fact.Pod}
				op.Call = int64(fact.Earliest)
				history = append(history, op)
			case fact.Change == storm.Removed && !answered[fact.UID]:
				// Another client asked (garbage collector, deletecollection), or the answer was lost. The removal was admitted at some
				// time before it was stored, and not before the pod was available.
				op.Call = int64(gained[fact.UID])
				history = append(history, op)
			}
		}
	}
	return history
}

// admissionsOf returns the removals whose admission a client saw, and their UIDs.
func admissionsOf(requests []RemovalRequest, truths []Truth) ([]porcupine.Operation, map[types.UID]bool) {
	removed := map[types.UID]Fact{}
	for _, truth := range truths {
		for _, fact := range truth.Facts {
			if fact.Change == storm.Removed {
				removed[fact.UID] = fact
			}
		}
	}
	var history []porcupine.Operation
	answered := map[types.UID]bool{}
	for _, req := range requests {
		fact, charged := removed[req.UID]
		if req.Outcome != storm.Admitted || !charged {
			continue
		}
		op := porcupine.Operation{
			ClientId: req.Client, Input: operation{uid: req.UID, name: req.Cell + "/" + req.Pod},
			Call: int64(req.Sent), Return: int64(req.Answered),
		}
		if req.Sent <= fact.Latest {
			// It may have taken the budget, and that was before the pod was removed.
			answered[req.UID] = true
			op.Return = min(op.Return, int64(fact.Latest))
		}
		history = append(history, op)
	}
	return history, answered
}
