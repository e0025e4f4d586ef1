package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The one order that illegal checks explains a history exactly if some order of its operations, each within its time, explains it.
func TestIllegalAgreesWithTheFullSearch(t *testing.T) {
	legal := 0
	for seed := range uint64(3000) {
		budget, history := drawHistory(rand.New(rand.NewPCG(seed, 1)))
		explained := isExplained(budget, history, map[types.UID]bool{})
		if explained {
			legal++
		}
		if _, found := illegal(budget, history); (len(found) == 0) != explained {
			t.Fatalf("seed %d: legal by search %t, illegal() = %q, for budget %d and %+v", seed, explained, found, budget, history)
		}
	}
	if legal < 300 || legal > 2700 {
		t.Errorf("%d of 3000 histories are legal, want a more even share of legal and illegal ones", legal)
	}
}

// isExplained reports whether the model allows any order of the operations. One comes before another if it ends before the other begins.
func isExplained(budget int, left []operation, reserved map[types.UID]bool) bool {
	for i, o := range left {
		if slices.ContainsFunc(left, func(other operation) bool { return other.latest < o.earliest }) {
			continue
		}
		rest := slices.Delete(slices.Clone(left), i, i+1)
		switch {
		case o.gain:
			if isExplained(budget+1, rest, reserved) {
				return true
			}
		case reserved[o.uid]:
			if isExplained(budget, rest, reserved) {
				return true
			}
		case budget > 0:
			more := maps.Clone(reserved)
			more[o.uid] = true
			if isExplained(budget-1, rest, more) {
				return true
			}
		}
	}
	return len(left) == 0
}

// drawHistory returns a history with few UIDs, so that they are admitted again, and with times that often overlap.
func drawHistory(random *rand.Rand) (budget int, history []operation) {
	for range random.IntN(8) {
		from := time.Duration(random.Int64N(12))
		o := operation{earliest: from, latest: from + time.Duration(random.Int64N(8))}
		o.uid = types.UID(fmt.Sprint(random.IntN(5)))
		o.gain = random.IntN(3) == 0
		history = append(history, o)
	}
	return random.IntN(4), history
}

// Removals that no client recorded may have been admitted at any time before they were stored. They have too many orders to try all, as a
// storm with a worker's restart showed.
func TestUnrecordedRemovalsKeepTheSearchSmall(t *testing.T) {
	evidence := Evidence{Floor: 10, Truths: []Truth{{Cell: "one"}}}
	for i := range 40 {
		evidence.Truths[0].Baseline = append(evidence.Truths[0].Baseline, types.UID(fmt.Sprint(i)))
	}
	facts := &evidence.Truths[0].Facts
	for i := range 30 {
		*facts = append(*facts, fact(storm.Removed, fmt.Sprint(i), 10+float64(i)))
	}
	for i := range 40 {
		*facts = append(*facts, fact(storm.Gained, fmt.Sprint(100+i), 50+float64(i)), fact(storm.Removed, fmt.Sprint(100+i), 50.5+float64(i)))
	}
	evidence.Requests = append(evidence.Requests, admitted("105", 55.5))
	if got := Validate(evidence); got.Admitted != 70 || got.Legal != 70 || got.OverAdmissions != 0 {
		t.Errorf("want 70 legal admissions, got %+v", got)
	}
	evidence.Floor = 11
	if got := Validate(evidence); len(got.Illegal) != 1 || got.OverAdmissions == 0 {
		t.Errorf("want one illegal admission at a floor of 11, got %+v", got)
	}
}
