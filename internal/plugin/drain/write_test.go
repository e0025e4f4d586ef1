package drain

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

func TestPlanSummary(t *testing.T) {
	blocked := []waves.Denial{{Pod: "shop/web-0", Node: "a"}}
	one := []waves.Wave{{}}
	for want, plan := range map[string]waves.Plan{
		"":                                    {Nodes: []string{}},
		"No pod has to go from a in cell c\n": {Nodes: []string{"a"}},
		"1 node in cell c in 1 wave, about 2s: a\n":           {Nodes: []string{"a"}, Waves: one, Takes: waves.Span(2 * time.Second)},
		"Cannot be drained in cell c: a; no pod can go now\n": {Nodes: []string{"a"}, Blocked: blocked},
		"Cannot be drained in cell c: a; the other pods can go in 1 wave, about 2s\nCan be drained: b\n": {
			Nodes: []string{"a", "b"}, Waves: one, Blocked: blocked, Takes: waves.Span(2 * time.Second),
		},
	} {
		if got := planSummary(drainPlan{Cell: "c", Plan: plan}); got != want {
			t.Errorf("planSummary() = %q, want %q", got, want)
		}
	}
}
