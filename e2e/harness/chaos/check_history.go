package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/types"
)

// maxReported bounds how many illegal admissions are reported separately.
const maxReported = 20

// modelVerdict is the verdict of the model on the admitted removals.
type modelVerdict struct {
	admitted int
	illegal  []string
}

// checkHistory checks a history in a single order, which is an explanation if any order is (pin). pin puts every operation within its time, so
// that an order that the model explains is proof, and it finds one whenever one exists. TestPinAgreesWithTheFullSearch checks both against a search
// of all orders, which takes too long for a storm's history.
func checkHistory(budget int, history []porcupine.Operation) modelVerdict {
	checked, admitted := modelOf(budget, history)
	return modelVerdict{admitted: admitted, illegal: illegal(checked, history)}
}

// modelOf returns the model for the UIDs of a history, and the number of its admissions.
func modelOf(budget int, history []porcupine.Operation) (porcupine.Model, int) {
	admitted := 0
	places := map[types.UID]int{}
	for _, op := range history {
		if in := op.Input.(operation); in.admits() {
			admitted++
			if _, known := places[in.uid]; !known {
				places[in.uid] = len(places)
			}
		}
	}
	return model(budget, places), admitted
}

// illegal returns the admissions that no order explains. While there are any it removes the first, so that the others are judged too.
func illegal(m porcupine.Model, history []porcupine.Operation) []string {
	var found []string
	history = pin(history)
	for len(found) < maxReported {
		result, search := porcupine.CheckOperationsVerbose(m, history, 0) // there is one order, so no timeout is needed
		if result == porcupine.Ok {
			break
		}
		unexplained := firstUnexplained(history, search)
		found = append(found, describe(history[unexplained]))
		history = slices.Delete(history, unexplained, unexplained+1)
	}
	return found
}

// admits reports whether it is an admission.
func (o operation) admits() bool { return !o.gain }

// pin puts each operation at one time: a gain at its earliest, an admission at its latest. In an order that the model explains, moving a
// gain forward or an admission back leaves every other operation as much budget as it had, or more. So if there is such an order, this is
// one. Of several admissions of one UID the first to end takes the budget, and the others find the UID reserved.
func pin(history []porcupine.Operation) []porcupine.Operation {
	at := func(op porcupine.Operation) int64 {
		if op.Input.(operation).gain {
			return op.Call
		}
		return op.Return
	}
	pinned := slices.Clone(history)
	slices.SortStableFunc(pinned, func(a, b porcupine.Operation) int {
		kindest := func(op porcupine.Operation) int {
			if op.Input.(operation).gain {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(kindest(a), kindest(b)))
	})
	for i := range pinned {
		pinned[i].Metadata = [2]int64{pinned[i].Call, pinned[i].Return}
		pinned[i].Call, pinned[i].Return = int64(i), int64(i)
	}
	return pinned
}

// firstUnexplained returns the admission that returned first among those outside the longest order that was found.
func firstUnexplained(history []porcupine.Operation, search porcupine.LinearizationInfo) int {
	explained := map[int]bool{}
	for _, orders := range search.PartialLinearizations() {
		longest := slices.MaxFunc(append(orders, nil), func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
		for _, i := range longest {
			explained[i] = true
		}
	}
	first := -1
	for i, op := range history {
		if !op.Input.(operation).admits() || explained[i] {
			continue
		}
		if first < 0 || op.Return < history[first].Return {
			first = i
		}
	}
	return first
}

func describe(op porcupine.Operation) string {
	in := op.Input.(operation)
	times := op.Metadata.([2]int64)
	return fmt.Sprintf("%s (UID %s) was admitted without budget between %s and %s", in.name, in.uid,
		time.Duration(times[0]).Round(time.Millisecond), time.Duration(times[1]).Round(time.Millisecond))
}
