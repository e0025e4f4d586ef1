package quota

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// inField returns the value of a number in a status field.
func inField(n *big.Int) int32 {
	switch {
	case n.Cmp(big.NewInt(math.MaxInt32)) > 0:
		return math.MaxInt32
	case n.Cmp(big.NewInt(math.MinInt32)) < 0:
		return math.MinInt32
	default:
		return int32(n.Int64())
	}
}

func TestSumsOfCellsDoNotOverflow(t *testing.T) {
	counts := rapid.OneOf(rapid.Int32Range(0, 10), rapid.Int32Range(math.MaxInt32-10, math.MaxInt32), rapid.Int32Range(0, math.MaxInt32))
	rapid.Check(t, func(t *rapid.T) {
		p := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(counts.Draw(t, "floor"))}}
		total, available, reserved := new(big.Int), new(big.Int), new(big.Int)
		for range rapid.IntRange(0, 8).Draw(t, "cells") {
			cell := v1alpha1.PodProtectorCell{CellID: "worker", Aggregation: v1alpha1.Aggregation{
				CountedSpec: CountedSpec(&p.Spec), CountedReplicas: counts.Draw(t, "counted"), TotalReplicas: counts.Draw(t, "total"),
			}}
			for range rapid.IntRange(0, 4).Draw(t, "buckets") {
				bucket := v1alpha1.Bucket{Counter: max(1, counts.Draw(t, "counter")), PodUIDHashes: make([]byte, hashSize)}
				cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, bucket)
				reserved.Add(reserved, big.NewInt(int64(bucket.Counter)))
			}
			p.Status.Cells = append(p.Status.Cells, cell)
			total.Add(total, big.NewInt(int64(cell.Aggregation.TotalReplicas)))
			available.Add(available, big.NewInt(int64(cell.Aggregation.CountedReplicas)))
		}
		left := new(big.Int).Sub(available, reserved)
		floor := big.NewInt(int64(p.Spec.MinAvailable.IntVal))
		budget := BudgetOf(p)
		if got, want := big.NewInt(int64(budget.Left())), new(big.Int).Sub(left, floor); got.Cmp(want) != 0 {
			t.Errorf("Left() = %s, want %s", got, want)
		}
		Summarize(p)
		s := &p.Status.Summary
		for field, c := range map[string]struct {
			got  int32
			want *big.Int
		}{
			"total": {s.Total, total}, "available": {s.Available, available}, "reserved": {s.Reserved, reserved}, "estimatedAvailable": {s.EstimatedAvailable, left},
			"desiredAvailable": {p.Status.DesiredAvailable, floor},
		} {
			if want := inField(c.want); c.got != want {
				t.Errorf("%s = %d, want %d", field, c.got, want)
			}
		}
	})
}

func TestExpectedReplicasDoNotOverflow(t *testing.T) {
	counts := rapid.OneOf(rapid.Int32Range(0, 10), rapid.Int32Range(math.MaxInt32-10, math.MaxInt32))
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.Int64Range(0, 100).Draw(t, "percent")
		share := intstr.FromString(fmt.Sprintf("%d%%", percent))
		p := &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: &share}}
		sum := new(big.Int)
		for range rapid.IntRange(1, 8).Draw(t, "cells") {
			wanted := counts.Draw(t, "wanted")
			sum.Add(sum, big.NewInt(int64(wanted)))
			p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{Aggregation: v1alpha1.Aggregation{CountedSpec: CountedSpec(&p.Spec), ExpectedReplicas: &wanted}})
		}
		want := new(big.Int).Mul(sum, big.NewInt(percent))
		want.Add(want, big.NewInt(99)).Div(want, big.NewInt(100)) // rounded up
		if got, known := Floor(p); !known || big.NewInt(int64(got)).Cmp(want) != 0 {
			t.Errorf("Floor() = %d, %t, want %s of %d%% of %s", got, known, want, percent, sum)
		}
		negative := int32(-1)
		p.Status.Cells[0].Aggregation.ExpectedReplicas = &negative
		if got, known := Floor(p); known {
			t.Errorf("Floor() = %d with a negative expectation, want unknown", got)
		}
	})
}

func TestMergedBucketsDoNotOverflow(t *testing.T) {
	for _, counters := range [][]int32{{math.MaxInt32, math.MaxInt32, 1}, {math.MaxInt32, 1}, {-5, 3}} {
		m := bucketMerger{}
		want := int64(0)
		for _, counter := range counters {
			m.add(&v1alpha1.Bucket{Counter: counter, PodUID: "u"})
			want += int64(max(counter, 0))
		}
		if got := m.bucket.Counter; int64(got) != min(want, math.MaxInt32) {
			t.Errorf("counters %v merged into %d, want %d", counters, got, min(want, math.MaxInt32))
		}
	}
}
