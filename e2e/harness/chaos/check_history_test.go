package chaos

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The pinned order explains a history exactly if some order of its operations, each within its time, explains it.
func TestPinAgreesWithTheFullSearch(t *testing.T) {
	legal := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		budget, history := drawHistory(random)
		m, _ := modelOf(budget, history)
		explained := porcupine.CheckOperations(m, history)
		if explained {
			legal++
		}
		if pinned := len(checkHistory(budget, history).illegal) == 0; pinned != explained {
			t.Fatalf("seed %d: legal by search %t, by pin %t, for budget %d and %+v", seed, explained, pinned, budget, history)
		}
	}
	if legal < 300 || legal > 2700 {
		t.Errorf("%d of 3000 histories are legal, want a more even share of legal and illegal ones", legal)
	}
}

// drawHistory returns a history with few UIDs, so that they are admitted again, and with times that often overlap.
func drawHistory(random *rand.Rand) (budget int, history []porcupine.Operation) {
	for range random.IntN(8) {
		from := random.Int64N(12)
		op := porcupine.Operation{Call: from, Return: from + random.Int64N(8)}
		uid := types.UID(fmt.Sprint(random.IntN(5)))
		in := operation{uid: uid, name: string(uid)}
		in.gain = random.IntN(3) == 0
		op.Input = in
		history = append(history, op)
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
