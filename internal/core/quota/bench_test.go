package quota_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// One batch: copy the object, decide on 64 removals, compact, summarize.
func BenchmarkDecide64(b *testing.B) {
	for _, open := range []int{0, 100, 10000} {
		b.Run(fmt.Sprintf("open=%d", open), func(b *testing.B) {
			p := protector(1, 20000)
			for i := range open {
				quota.Decide(p, []quota.Removal{removal("c0", fmt.Sprint("old-", i))})
			}
			compactAll(p, start)
			var removals []quota.Removal
			for i := range 64 {
				removals = append(removals, removal("c0", fmt.Sprint("new-", i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				copied := p.DeepCopy()
				quota.Decide(copied, removals)
				compactAll(copied, start)
				quota.Summarize(copied)
			}
		})
	}
}

// The same for a protector that must tolerate the loss of a zone.
func BenchmarkDecide64ToleratingDomainLoss(b *testing.B) {
	for _, size := range []struct{ cells, zones int }{{1, 3}, {5, 3}, {10, 64}} {
		b.Run(fmt.Sprintf("cells=%d,zones=%d", size.cells, size.zones), func(b *testing.B) {
			p := spread(protector(1, slices.Repeat([]int32{int32(100 * size.zones)}, size.cells)...), zone)
			for i := range p.Status.Cells {
				var zones []v1alpha1.DomainCount
				for j := range size.zones {
					zones = append(zones, in(fmt.Sprintf("zone-%02d", j), 100))
				}
				placed(p, i, zones...)
			}
			var removals []quota.Removal
			for i := range 64 {
				r := removal("c0", fmt.Sprint("new-", i))
				r.Domain = quota.Domain{TopologyKey: zone, Name: "zone-00"}
				removals = append(removals, r)
			}
			b.ReportAllocs()
			for b.Loop() {
				copied := p.DeepCopy()
				quota.Decide(copied, removals)
				compactAll(copied, start)
				quota.Summarize(copied)
			}
		})
	}
}

// The status of a protector with 10,000 open reservations, as the API server stores it.
func BenchmarkStatusOf10000Reservations(b *testing.B) {
	p := reserved10000()
	for b.Loop() {
		raw, err := json.Marshal(p.Status)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(raw))/1024, "KiB")
	}
}

// compactAll compacts the reservations of every cell.
func compactAll(p *v1alpha1.PodProtector, now time.Time) {
	for i := range p.Status.Cells {
		quota.Compact(p, p.Status.Cells[i].CellID, now)
	}
}
