package webhook_test

import (
	"slices"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestCoresOfCell(t *testing.T) {
	l := newFixture(t)
	l.createCell(func(s *v1alpha1.CellSpec) {
		s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"zone": "a"}}
	})
	second := l.secondCore()
	r := l.serve(withCells, second.asCore)
	for claim, c := range map[string]struct {
		cell, zone string
		want       []string
	}{
		"a pod of the Cell to its core":                     {l.cell, "a", []string{"core"}},
		"a pod of no Cell to none":                          {l.cell, "b", nil},
		"a pod of a cell that only flags name to all cores": {"flagged", "b", []string{"core", "second"}},
	} {
		got, err := r.protection.CoresOf(c.cell, l.namespace, map[string]string{"zone": c.zone})
		if slices.Sort(got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: cores %v and error %v, want %v", claim, got, err, c.want)
		}
	}
}
