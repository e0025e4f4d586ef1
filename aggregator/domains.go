package aggregator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// cellDomains returns how pods are distributed over domains, limited to what a status holds. If there are too many domains, it
// lists the largest; of equally large ones the first by name, so that the same pods always give the same status.
func cellDomains(key string, pods map[string]int32, unknown int32, problem string) *v1alpha1.CellDomains {
	d := &v1alpha1.CellDomains{TopologyKey: key, Unknown: unknown, Problem: problem}
	names := slices.Sorted(maps.Keys(pods))
	if len(names) > v1alpha1.MostDomains {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(pods[b], pods[a]) })
		d.Others = &v1alpha1.OtherDomains{}
		for _, name := range names[v1alpha1.MostDomains:] {
			d.Others.Domains++
			d.Others.Counted += pods[name]
			d.Others.Largest = max(d.Others.Largest, pods[name])
		}
		names = names[:v1alpha1.MostDomains]
		slices.Sort(names)
	}
	for _, name := range names {
		d.Domains = append(d.Domains, v1alpha1.DomainCount{Name: name, Counted: pods[name]})
	}
	return d
}
