package quota_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// zonedPod is a pod in its true state.
type zonedPod struct {
	cell, uid, zone string
	// known and read report whether the aggregator and the webhook know its zone.
	known, nodeRead bool
	// removing reports that the pod's removal was admitted, and gone that it has happened.
	removing, removed bool
}

func (z *zonedPod) removal() quota.Removal {
	r := removal(z.cell, z.uid)
	if z.nodeRead {
		r.Domain = quota.Domain{TopologyKey: zone, Name: z.zone}
	}
	return r
}

// zones are the zones of the pods. The empty name is a zone like any other.
var zones = []string{"a", "b", "", "d"}

func drawZonedPod(t *rapid.T, number int) *zonedPod {
	return &zonedPod{
		cell: rapid.SampledFrom(cellIDs).Draw(t, "cell"), uid: fmt.Sprint("pod-", number), zone: rapid.SampledFrom(zones).Draw(t, "zone"),
		known: rapid.IntRange(0, 5).Draw(t, "known") > 0, nodeRead: rapid.IntRange(0, 5).Draw(t, "read") > 0,
	}
}

func drawZonedPods(t *rapid.T, most int) []*zonedPod {
	var pods []*zonedPod
	for i := range rapid.IntRange(0, most).Draw(t, "pods") {
		pods = append(pods, drawZonedPod(t, i))
	}
	return pods
}

// count writes an aggregator's counts, with at most most zones counted separately.
func count(p *v1alpha1.PodProtector, cellID string, pods []*zonedPod, most int) {
	counted, unknown, total := map[string]int32{}, int32(0), int32(0)
	for _, pod := range pods {
		switch {
		case pod.cell != cellID || pod.removed:
			continue
		case pod.known:
			counted[pod.zone]++
		default:
			unknown++
		}
		total++
	}
	a := &quota.CellOf(p, cellID).Aggregation
	a.CountedReplicas, a.Spread = total, &v1alpha1.CellDomains{TopologyKey: zone, Unknown: unknown}
	byPods := func(a, b string) int { return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b)) }
	for i, name := range slices.SortedFunc(maps.Keys(counted), byPods) {
		if i < most {
			a.Spread.Domains = append(a.Spread.Domains, in(name, counted[name]))
			continue
		}
		if a.Spread.Others == nil {
			a.Spread.Others = &v1alpha1.OtherDomains{Largest: counted[name]}
		}
		a.Spread.Others.Domains++
		a.Spread.Others.Counted += counted[name]
	}
}

func drawZoned(t *rapid.T, pods []*zonedPod) *v1alpha1.PodProtector {
	p := spread(protector(int32(rapid.IntRange(0, 8).Draw(t, "floor")), 0, 0, 0), zone)
	for _, cellID := range cellIDs {
		count(p, cellID, pods, rapid.IntRange(1, 4).Draw(t, "counted separately"))
	}
	return p
}

// fewestRemaining is a slow, simple computation of the pods that remain outside a domain after the given number of removals. It tries all
// possibilities.
func fewestRemaining(cell *v1alpha1.PodProtectorCell, domain string, going int) int {
	var pods []string
	listed := map[string]bool{}
	by := cell.Aggregation.Spread
	for _, d := range by.Domains {
		listed[d.Name] = true
		for range d.Counted {
			pods = append(pods, d.Name)
		}
	}
	least := len(pods) + 100
	for _, others := range otherDomainsOf(by.Others, listed) {
		for in := range by.Unknown + 1 { // that many of the unknown pods are in the domain
			world := slices.Concat(pods, others, slices.Repeat([]string{domain}, int(in)), slices.Repeat([]string{"elsewhere"}, int(by.Unknown-in)))
			least = min(least, fewestLeft(world, domain, going))
		}
	}
	return least
}

// otherDomainsOf returns all possible distributions of pods over domains that are not listed.
func otherDomainsOf(o *v1alpha1.OtherDomains, listed map[string]bool) [][]string {
	if o == nil {
		return [][]string{nil}
	}
	candidates := [][]string{nil}
	for range o.Counted {
		var longer [][]string
		for _, candidate := range candidates {
			for _, name := range allZones {
				if !listed[name] {
					longer = append(longer, append(slices.Clone(candidate), name))
				}
			}
		}
		candidates = longer
	}
	return slices.DeleteFunc(candidates, func(candidate []string) bool {
		pods := map[string]int32{}
		for _, name := range candidate {
			pods[name]++
		}
		return int32(len(pods)) != o.Domains || slices.Max(slices.Collect(maps.Values(pods))) != o.Largest
	})
}

// allZones has two zones without counted pods, which may exist.
var allZones = append(slices.Clone(zones), "y", "z")

// fewestLeft returns the minimum number of pods that remain outside a domain, over all choices of removed pods.
func fewestLeft(pods []string, domain string, going int) int {
	going, least := min(going, len(pods)), len(pods)
	for chosen := range 1 << len(pods) {
		left, gone := 0, 0
		for i, name := range pods {
			if chosen&(1<<i) != 0 {
				gone++
			} else if name != domain {
				left++
			}
		}
		if gone == going {
			least = min(least, left)
		}
	}
	return least
}

// A domain may have an empty name. A pod with an unknown domain is not assumed to be in it.
func TestPodOfUnknownDomainMayBeInAnyDomain(t *testing.T) {
	for _, crowded := range zones {
		pods := []*zonedPod{{zone: crowded, known: true}, {zone: crowded, known: true}, {zone: "e", known: true}}
		for i, pod := range pods {
			pod.cell, pod.uid = cellIDs[0], fmt.Sprint("pod-", i)
		}
		for domain, want := range map[quota.Domain]bool{
			{TopologyKey: zone, Name: crowded}:   true, // its loss takes the pod as well
			{TopologyKey: zone, Name: "e"}:       false,
			{TopologyKey: zone, Name: "f"}:       false,
			{}:                                   false,
			{TopologyKey: "rack", Name: crowded}: false,
		} {
			p := spread(protector(1, 0, 0, 0), zone)
			for _, cellID := range cellIDs {
				count(p, cellID, pods, 4)
			}
			r := removal(cellIDs[0], pods[0].uid)
			r.Domain = domain
			if verdict := quota.Decide(p, []quota.Removal{r})[0]; verdict.Outcome.Admitted() != want {
				t.Errorf("two pods in %q, one in \"e\", floor 1 after any domain loss: removal of a pod in %+v = %s, want admitted = %v",
					crowded, domain, verdict.Outcome, want)
			}
		}
	}
}

// The test tries all possibilities for the reserved pods, for those whose zone is unknown and for those that are counted together. A
// removal must be denied if and only if the later loss of some zone other than the pod's could leave fewer pods than the floor.
func TestDomainLossAssumesTheWorstPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawZoned(t, drawZonedPods(t, 9))
		for i := range p.Status.Cells {
			p.Status.Cells[i].Discount = rapid.SampledFrom([]v1alpha1.Discount{"", "", "", v1alpha1.DiscountStale}).Draw(t, "discount")
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "removals") {
			asked := drawZonedPod(t, 100+i)
			next := p.DeepCopy()
			verdict := quota.Decide(next, []quota.Removal{asked.removal()})[0]
			denied, fatal := verdict.Outcome == quota.DeniedDomainLoss, ""
			for _, domain := range allZones {
				left := 0
				for i := range p.Status.Cells {
					cell, more := &p.Status.Cells[i], 0
					if cell.CellID == asked.cell {
						more = 1
					} else if cell.Discount != "" {
						continue
					}
					left += fewestRemaining(cell, domain, quota.Open(&cell.AdmissionHistory)+more)
				}
				if floor := p.Spec.MinAvailable.IntValue(); left < floor && (!asked.nodeRead || domain != asked.zone) {
					fatal = fmt.Sprintf("the loss of %q leaves %d pods, floor %d", domain, left, floor)
				}
			}
			admitted := verdict.Outcome.Admitted()
			if floor := p.Spec.MinAvailable.IntValue(); floor > 0 && (admitted && fatal != "" || denied && fatal == "") {
				t.Fatalf("Decide() of %+v = %s %+v, although %s\n%+v", asked, verdict.Outcome, verdict.Loss, cmp.Or(fatal, "no domain loss violates the floor"), p.Status.Cells)
			}
			p = next
		}
	})
}

// Removals, late counts and unknown zones interleave in any order. The number of pods that remain after the loss of a zone never
// falls below the floor, or below its initial number if that was lower.
func TestAdmittedRemovalsTolerateAnyDomainLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawZonedPods(t, 24)
		p := drawZoned(t, pods)
		without := func(domain string) (left int) {
			for _, pod := range pods {
				if pod.zone != domain && !pod.removing && !pod.removed {
					left++
				}
			}
			return left
		}
		sure := map[string]int{}
		for _, domain := range zones {
			sure[domain] = min(without(domain), p.Spec.MinAvailable.IntValue())
		}
		some := func(t *rapid.T, is func(*zonedPod) bool) *zonedPod {
			of := slices.DeleteFunc(slices.Clone(pods), func(pod *zonedPod) bool { return !is(pod) })
			if len(of) == 0 {
				t.Skip("no such pod")
			}
			return rapid.SampledFrom(of).Draw(t, "pod")
		}
		t.Repeat(map[string]func(*rapid.T){
			"remove": func(t *rapid.T) {
				var asked []*zonedPod
				var removals []quota.Removal
				for range rapid.IntRange(1, 4).Draw(t, "removals") {
					pod := some(t, func(pod *zonedPod) bool { return !pod.removed })
					asked, removals = append(asked, pod), append(removals, pod.removal())
				}
				for i, verdict := range quota.Decide(p, removals) {
					asked[i].removing = asked[i].removing || verdict.Outcome.Admitted()
				}
			},
			"a pod is removed": func(t *rapid.T) {
				some(t, func(pod *zonedPod) bool { return pod.removing && !pod.removed }).removed = true
			},
			"a pod is created": func(t *rapid.T) { pods = append(pods, drawZonedPod(t, len(pods))) },
			"count": func(t *rapid.T) {
				cellID := rapid.SampledFrom(cellIDs).Draw(t, "cell")
				count(p, cellID, pods, rapid.IntRange(1, 4).Draw(t, "counted separately"))
				expired := rapid.Bool().Draw(t, "some removals failed")
				quota.Settle(&quota.CellOf(p, cellID).AdmissionHistory, func(r quota.Reservation) quota.Observation {
					i := slices.IndexFunc(pods, func(pod *zonedPod) bool { return pod.cell == cellID && quota.HashUID(types.UID(pod.uid)) == r.Hash })
					switch {
					case pods[i].removed:
						return quota.Absent
					case expired && r.Hash%2 == 0:
						pods[i].removing = false
						return quota.Expired
					}
					return quota.Alive
				})
			},
			"compact": func(*rapid.T) { compactAll(withThreshold(p, 1), start) },
			"": func(t *rapid.T) {
				for domain, least := range sure {
					if left := without(domain); left < least {
						t.Fatalf("the loss of %q leaves %d pods, want at least %d\n%+v", domain, left, least, p.Status.Cells)
					}
				}
			},
		})
	})
}

func TestBatchDecidesLikeSingleDecisionsWithDomainLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batched := drawZoned(t, drawZonedPods(t, 24))
		batched.Status.Cells[0].Discount = rapid.SampledFrom([]v1alpha1.Discount{"", v1alpha1.DiscountStale}).Draw(t, "discount")
		single := batched.DeepCopy()
		var removals []quota.Removal
		for i := range 12 {
			removals = append(removals, drawZonedPod(t, i%9).removal())
		}
		for i, got := range quota.Decide(batched, removals) {
			want := quota.Decide(single, removals[i:i+1])[0]
			if got.Outcome != want.Outcome || got.Budget != want.Budget || !gocmp.Equal(got.Loss, want.Loss) {
				t.Fatalf("removal %d: batch decided %+v, single decision is %+v", i, got, want)
			}
		}
	})
}

// The summary promises exactly the removals that Decide admits for the pods of the best domain in the best cell.
func TestDisruptionsAllowedMatchesTheBestDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := drawZonedPods(t, 24)
		p := withMaxConcurrentLag(drawZoned(t, pods), int32(rapid.IntRange(0, 6).Draw(t, "maxConcurrentLag")))
		for _, pod := range pods[:rapid.IntRange(0, len(pods)).Draw(t, "earlier")] {
			quota.Decide(p, []quota.Removal{pod.removal()})
		}
		if quota.Summarize(p); p.Spec.MinAvailable.IntValue() == 0 {
			return
		}
		best := 0
		for _, cell := range p.Status.Cells {
			try := func(domain quota.Domain, pods int32) {
				admitted, copied := 0, p.DeepCopy()
				for i := range pods {
					r := removal(cell.CellID, fmt.Sprint("fresh-", i))
					r.Domain = domain
					if quota.Decide(copied, []quota.Removal{r})[0].Outcome.Admitted() {
						admitted++
					}
				}
				best = max(best, admitted)
			}
			by := cell.Aggregation.Spread
			for _, d := range by.Domains {
				try(quota.Domain{TopologyKey: zone, Name: d.Name}, d.Counted)
			}
			if try(quota.Domain{}, by.Unknown); by.Others != nil {
				try(quota.Domain{TopologyKey: zone, Name: "elsewhere"}, by.Others.Counted)
			}
		}
		if got := int(p.Status.DisruptionsAllowed); got != best {
			t.Fatalf("disruptionsAllowed = %d, want %d, the number of removals admitted in the best domain\n%+v", got, best, p.Status.Cells)
		}
	})
}

func TestDomainLoss(t *testing.T) {
	two := func(floor, a, b int32) *v1alpha1.PodProtector {
		p := spread(protector(floor, a+b), zone)
		placed(p, 0, in("a", a), in("b", b))
		return p
	}
	of := func(name string) quota.Removal {
		r := removal("c0", "one of "+name)
		r.Domain = quota.Domain{TopologyKey: zone, Name: name}
		return r
	}
	otherKey := of("a")
	otherKey.Domain.TopologyKey = "topology.kubernetes.io/region"
	forced := of("b")
	forced.Force = true
	audit := two(4, 6, 4)
	audit.Spec.Spread.TolerateDomainLoss = false
	old := two(4, 6, 6)
	old.Status.Cells[0].Aggregation.Spread.TopologyKey = "topology.kubernetes.io/region"
	unknown := two(4, 6, 4)
	unknown.Status.Cells[0].Aggregation.CountedReplicas++
	oneKnown := spread(protector(4, 7), zone)
	placed(oneKnown, 0, in("a", 4))
	many := spread(protector(8, 10), zone)
	placed(many, 0, in("a", 6)).Others = &v1alpha1.OtherDomains{Domains: 2, Counted: 4, Largest: 3}
	clusters := spread(protector(5, 6, 3), v1alpha1.TopologyKeyCell)
	loss := func(name string, pods, left int) *quota.DomainLoss {
		return &quota.DomainLoss{TopologyKey: zone, Kind: quota.DomainNamed, Name: name, Pods: pods, Left: left}
	}
	blind := loss("a", 6, 3)
	blind.PodUnknown = true
	for claim, c := range map[string]struct {
		p       *v1alpha1.PodProtector
		removal quota.Removal
		want    quota.Outcome
		loss    *quota.DomainLoss
	}{
		"denies a removal of the pods that must remain":        {two(4, 6, 4), of("b"), quota.DeniedDomainLoss, loss("a", 6, 3)},
		"admits a removal in the largest domain":               {two(4, 6, 4), of("a"), quota.Reserved, nil},
		"admits a removal if one zone has all pods":            {two(4, 6, 0), of("a"), quota.Reserved, nil},
		"denies the removal of the only pod in another domain": {two(4, 6, 1), of("b"), quota.DeniedDomainLoss, loss("a", 6, 0)},
		"is ignored for a floor of 0":                          {two(0, 6, 0), of("b"), quota.Reserved, nil},
		"is ignored without tolerateDomainLoss":                {audit, of("b"), quota.Reserved, nil},
		"is checked after the floor":                           {two(10, 6, 4), of("b"), quota.DeniedNoBudget, nil},
		"assumes the worst for a pod of unknown domain":        {two(4, 6, 4), removal("c0", "a"), quota.DeniedDomainLoss, blind},
		"treats a domain of another key as unknown":            {two(4, 6, 4), otherKey, quota.DeniedDomainLoss, blind},
		"is overridden by a break-glass removal":               {two(4, 6, 4), forced, quota.Reserved, loss("a", 6, 3)},
		"ignores domain counts by another key":                 {old, of("a"), quota.DeniedDomainLoss, &quota.DomainLoss{TopologyKey: zone, Kind: quota.DomainUnknown, Pods: 12, Unknown: 12}},
		"does not count pods of unknown domains as remaining":  {unknown, of("b"), quota.DeniedDomainLoss, &quota.DomainLoss{TopologyKey: zone, Kind: quota.DomainNamed, Name: "a", Pods: 6, Left: 3, Unknown: 1}},
		"may affect all pods of unknown domains":               {oneKnown, of("a"), quota.DeniedDomainLoss, &quota.DomainLoss{TopologyKey: zone, Kind: quota.DomainUnknown, Pods: 3, Left: 3, Unknown: 3}},
		"includes reservations in any domain":                  {withReservations(two(4, 6, 5), "x"), of("b"), quota.DeniedDomainLoss, loss("a", 6, 3)},
		"may affect a domain that is not counted separately": {
			many, of("a"), quota.DeniedDomainLoss, &quota.DomainLoss{TopologyKey: zone, Kind: quota.DomainOther, Pods: 3, Left: 6},
		},
		"admits a repeated removal":              {withReservations(two(4, 6, 4), "one of b"), of("b"), quota.Renewed, nil},
		"of a cell admits removals in that cell": {clusters, removal("c0", "x"), quota.Reserved, nil},
		"of a cell denies removals in other cells": {
			clusters.DeepCopy(), removal("c1", "x"), quota.DeniedDomainLoss,
			&quota.DomainLoss{TopologyKey: v1alpha1.TopologyKeyCell, Kind: quota.DomainNamed, Name: "c0", Pods: 6, Left: 2},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			got := quota.Decide(c.p, []quota.Removal{c.removal})[0]
			if diff := gocmp.Diff(c.loss, got.Loss); got.Outcome != c.want || diff != "" {
				t.Errorf("Decide() = %s, want %s; loss (-want +got):\n%s", got.Outcome, c.want, diff)
			}
			if forcedBy := got.Forced; c.removal.Force && forcedBy != quota.DeniedDomainLoss {
				t.Errorf("Forced = %q, want the domain loss", forcedBy)
			}
		})
	}
}
