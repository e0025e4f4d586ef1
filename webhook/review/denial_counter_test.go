package review

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// counted returns the counts of a refusal counter, by protector.
func counted(t *testing.T, tally *denialCounter) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(tally.counter)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			counted[metric.Label[1].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return counted
}

func TestDenialCounterIsBounded(t *testing.T) {
	tally := newDenialCounter()
	key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)} }
	for range 2 {
		for i := range maxCountedProtectors + 10 {
			tally.inc("core", key(i))
		}
	}
	got := counted(t, tally)
	if len(got) != maxCountedProtectors+1 || got["shop/0"] != 2 || got[otherProtectors] != 20 {
		t.Errorf("%d series, %v of the first, %v of label others", len(got), got["shop/0"], got[otherProtectors])
	}
	tally.drop("core", key(maxCountedProtectors)) // it has no counter of its own
	tally.drop("core", key(0))
	tally.inc("core", key(maxCountedProtectors))
	tally.inc("core", key(0))
	got = counted(t, tally)
	if _, there := got["shop/0"]; there || len(got) != maxCountedProtectors+1 || got[fmt.Sprint("shop/", maxCountedProtectors)] != 1 || got[otherProtectors] != 21 {
		t.Errorf("after one was deleted: %d series, %v of its successor, %v of label others", len(got), got[fmt.Sprint("shop/", maxCountedProtectors)], got[otherProtectors])
	}
}
