package webhook

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// counted returns the counters of a tally, by protector.
func counted(t *testing.T, tally *tally) map[string]float64 {
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

func TestRefusalsAreCountedByAsManyProtectorsAndNoMore(t *testing.T) {
	tally := newTally()
	key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)} }
	for range 2 {
		for i := range mostBlamed + 10 {
			tally.refused("core", key(i))
		}
	}
	got := counted(t, tally)
	if len(got) != mostBlamed+1 || got["shop/0"] != 2 || got[others] != 20 {
		t.Errorf("%d series, %v of the first, %v of the others", len(got), got["shop/0"], got[others])
	}
	tally.forget("core", key(mostBlamed)) // it has no counter of its own
	tally.forget("core", key(0))
	tally.refused("core", key(mostBlamed))
	tally.refused("core", key(0))
	got = counted(t, tally)
	if _, there := got["shop/0"]; there || len(got) != mostBlamed+1 || got[fmt.Sprint("shop/", mostBlamed)] != 1 || got[others] != 21 {
		t.Errorf("when one is gone: %d series, %v of the one that came, %v of the others", len(got), got[fmt.Sprint("shop/", mostBlamed)], got[others])
	}
}
