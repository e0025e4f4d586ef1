package quota

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// FuzzStatus decides on removals with any protector that decodes. It must not panic for any status. For a status that an API server
// stores, it admits no more than is left by a sum in integers of any size, without discounts.
func FuzzStatus(f *testing.F) {
	spec := v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(3)}
	counted := CountedSpec(&spec)
	for _, seed := range []string{
		`{}`,
		`{"spec":{"minAvailable":3}}`,
		`{"status":{"cells":[{"cellID":"a","aggregation":{"countedReplicas":5,"countedSpec":"SPEC"}}]}}`,
		`{"status":{"cells":[{"cellID":"a","aggregation":{"countedReplicas":2147483647,"countedSpec":"SPEC"}},{"cellID":"b","aggregation":{"countedReplicas":2147483647,"countedSpec":"SPEC"}}]}}`,
		`{"status":{"cells":[{"cellID":"a","aggregation":{"countedReplicas":9,"countedSpec":"SPEC"},"admissionHistory":{"buckets":[{"startTime":"2026-01-01T00:00:00.000000Z","counter":2147483647,"podUIDHashes":"AAAA"},{"counter":2147483647,"podUID":"uid-0"}]}}]}}`,
		`{"status":{"cells":[{"cellID":"a","discount":"Stale","aggregation":{"countedReplicas":9,"countedSpec":"SPEC"}},{"cellID":"b","aggregation":{"countedReplicas":4,"countedSpec":"SPEC"}}]}}`,
		`{"spec":{"minAvailable":"50%"},"status":{"cells":[{"cellID":"a","aggregation":{"countedReplicas":9,"expectedReplicas":-10,"countedSpec":"SPEC"}}]}}`,
		`{"spec":{"maxUnavailable":1,"spread":{"topologyKey":"cell","tolerateDomainLoss":true}},"status":{"cells":[{"cellID":"a","aggregation":{"countedReplicas":9,"expectedReplicas":9,"countedSpec":"SPEC","spread":{"topologyKey":"zone","domains":[{"name":"z","counted":-3}],"others":{"counted":-7}}}}]}}`,
		`{"status":{"cells":[{"cellID":"a"},{"cellID":"a"},{"cellID":""}]}}`,
	} {
		f.Add([]byte(strings.ReplaceAll(seed, "SPEC", counted)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := &v1alpha1.PodProtector{}
		p.Spec = *spec.DeepCopy()
		if json.Unmarshal(raw, p) != nil {
			return
		}
		before := p.DeepCopy()
		left, exact := reference(before)
		now := time.Unix(1_800_000_000, 0)
		var removals []Removal
		for i := range 12 {
			removals = append(removals, Removal{Cell: [3]string{"a", "b", "c"}[i%3], PodUID: types.UID(fmt.Sprint("uid-", i/2)), PodName: "web", At: now})
		}
		verdicts := Decide(p, removals)
		if exact {
			charged := new(big.Int).Sub(open(p), open(before))
			if charged.Cmp(left) > 0 {
				t.Errorf("Decide() charged %s removals, want at most %s: %v of %s", charged, left, verdicts, raw)
			}
		}
		held := open(p)
		for i := range p.Status.Cells {
			Compact(p, p.Status.Cells[i].CellID, now)
		}
		if exact && open(p).Cmp(held) < 0 && stored(p) {
			t.Errorf("Compact() left %s reservations, want %s: %s", open(p), held, raw)
		}
		Summarize(p)
		for i := range p.Status.Cells {
			for reservation := range Reservations(&p.Status.Cells[i].AdmissionHistory) {
				_ = reservation
			}
			Settle(&p.Status.Cells[i].AdmissionHistory, func(Reservation) Observation { return Unobserved })
		}
	})
}

// open adds up the reservations that reduce the budget.
func open(p *v1alpha1.PodProtector) *big.Int {
	sum := new(big.Int)
	for i := range p.Status.Cells {
		for j := range p.Status.Cells[i].AdmissionHistory.Buckets {
			if b := &p.Status.Cells[i].AdmissionHistory.Buckets[j]; !b.Accounted {
				sum.Add(sum, big.NewInt(int64(max(b.Counter, 0))))
			}
		}
	}
	return sum
}

// stored reports whether the API server accepts the numbers of a status.
func stored(p *v1alpha1.PodProtector) bool {
	names := map[string]bool{}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		a := &cell.Aggregation
		if names[cell.CellID] || a.CountedReplicas < 0 || a.ExpectedReplicas != nil && *a.ExpectedReplicas < 0 {
			return false
		}
		names[cell.CellID] = true
		for j := range cell.AdmissionHistory.Buckets {
			b := &cell.AdmissionHistory.Buckets[j]
			// No rule of the CRD requires that a bucket is single or merged; the webhook and the aggregator write only such buckets.
			if b.Counter < 1 || b.PodUID != "" && (b.Counter != 1 || len(b.PodUIDHashes) > 0) || b.PodUID == "" && int(b.Counter) != hashCount(b) {
				return false
			}
		}
	}
	return true
}

// reference returns the maximum number of removals that may be charged. exact is false if the API server stores no such object, or if
// its floor is 0, so that nothing is limited.
func reference(p *v1alpha1.PodProtector) (left *big.Int, exact bool) {
	if !stored(p) {
		return nil, false
	}
	available, expected, known := new(big.Int), new(big.Int), true
	spec := CountedSpec(&p.Spec)
	counted := false
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		a := &cell.Aggregation
		if a.CountedSpec == spec {
			available.Add(available, big.NewInt(int64(a.CountedReplicas)))
		}
		if cell.Discount == v1alpha1.DiscountCleared {
			continue
		}
		if a.Void || a.CountedSpec != spec || a.ExpectedReplicas == nil {
			known = false
			continue
		}
		counted = true
		expected.Add(expected, big.NewInt(int64(*a.ExpectedReplicas)))
	}
	known = known && counted
	if e := p.Spec.ExpectedReplicas; e != nil {
		if *e < 0 {
			return nil, false
		}
		expected, known = big.NewInt(int64(*e)), true
	}
	var floor *big.Int
	switch least, most := p.Spec.MinAvailable, p.Spec.MaxUnavailable; {
	case least != nil && least.Type == intstr.Int:
		floor = big.NewInt(int64(least.IntVal))
	case least != nil && known:
		floor = part(least, expected)
	case least == nil && most != nil && known:
		if unavailable := part(most, expected); unavailable != nil {
			floor = new(big.Int).Sub(expected, unavailable)
		}
	}
	if floor == nil { // unknown: no pod may be removed
		return new(big.Int), !known || p.Spec.MinAvailable == nil && p.Spec.MaxUnavailable == nil
	}
	if floor.Sign() <= 0 {
		return nil, false
	}
	left = new(big.Int).Sub(available, open(p))
	if left.Sub(left, floor); left.Sign() < 0 {
		left.SetInt64(0)
	}
	return left, true
}

// part returns a number, or a percentage of a whole, rounded up. It is nil if the API server does not store such a value.
func part(of *intstr.IntOrString, whole *big.Int) *big.Int {
	if of.Type == intstr.Int {
		if of.IntVal < 0 {
			return nil
		}
		return big.NewInt(int64(of.IntVal))
	}
	digits := regexp.MustCompile(`^(100|[0-9]{1,2})%$`).FindStringSubmatch(of.StrVal)
	if digits == nil {
		return nil
	}
	percent, _ := new(big.Int).SetString(digits[1], 10)
	n := percent.Mul(percent, whole)
	return n.Add(n, big.NewInt(99)).Div(n, big.NewInt(100))
}
