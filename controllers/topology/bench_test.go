package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// BenchmarkSummarize measures one scrape without the list from the cache: 10,000 protectors with ten open reservations in each of three cells.
func BenchmarkSummarize(b *testing.B) {
	now := time.Now()
	protectors := make([]v1alpha1.PodProtector, 10_000)
	for i := range protectors {
		opened := make([]time.Time, 10)
		for n := range opened {
			opened[n] = now
		}
		protectors[i] = newProtector(fmt.Sprint("web-", i), int32(i%7), int32(i%5), int32(i%3), opened...)
		one := protectors[i].Status.Cells[0]
		two, three := one, one
		two.CellID, three.CellID = "two", "three"
		protectors[i].Status.Cells = append(protectors[i].Status.Cells, two, three)
	}
	b.ReportAllocs()
	for b.Loop() {
		summarize(protectors, maxReportedProtectors)
	}
}
