package aggregator

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// BenchmarkShard runs one shard of a cell with a real core and a stand-in for the cell, alone and as one of five. It reports the
// start time and the memory that the kernel accounts to it. The other shards consist only of their Leases.
func BenchmarkShard(b *testing.B) {
	l := newBenchFixture(b)
	l.setProtectors(*processProtectors)
	ring := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	ring.Spec = v1alpha1.ClusterRingSpec{ShardNamespace: l.namespace, LeaseDurationSeconds: 600}
	l.check(l.core.Create(b.Context(), ring))
	b.Cleanup(func() { _ = l.core.Delete(b.Context(), ring) })
	for _, shards := range []int{1, 5} {
		b.Run(fmt.Sprintf("pods=%d/shards=%d", *processPods, shards), func(b *testing.B) { l.forBenchmark(b).shard(shards) })
	}
}

func (l *benchFixture) shard(shards int) {
	l.Helper()
	for n := 1; n < shards; n++ {
		holder, seconds, now := fmt.Sprintf("of-%d-%d_1", shards, n), int32(600), metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: holder[:len(holder)-2]}}
		lease.Labels = map[string]string{v1alpha1.LabelRing: l.namespace}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
		l.check(l.core.Create(l.Context(), lease))
		l.Cleanup(func() { _ = client.IgnoreNotFound(l.core.Delete(l.Context(), lease)) })
	}
	cell := newFakeCell(l.B, *processPods, l.protectors)
	p := measure.Start(l, l.program, "aggregator", "--cell="+benchCell, "--core-kubeconfig="+testplane.Kubeconfig(l),
		"--kubeconfig="+cell.kubeconfig(), "--ring="+l.namespace, fmt.Sprintf("--shard=of-%d-0", shards), "--heartbeat=1s")
	p.AwaitReady()
	written := func() float64 { return p.Metric("breakwater_aggregator_writes_total", `result="written"`) }
	wanted := 0
	p.Await(100*time.Millisecond, func() bool {
		wanted = l.protectorsOf(fmt.Sprintf("of-%d-0", shards))
		return wanted > 0 && written() >= float64(wanted)
	}, func() string { return fmt.Sprintf("%v of %d protectors are written", written(), wanted) })
	l.ReportMetric(time.Since(p.Began).Seconds(), "first-aggregation-s")
	l.ReportMetric(p.CPUTime().Seconds(), "first-aggregation-processor-s")
	l.ReportMetric(p.StableMemory(stableFor), "aggregator-MiB-settled")
	l.ReportMetric(float64(wanted), "protectors")
	l.ReportMetric(p.Memory("VmHWM"), "aggregator-MiB-peak")
	l.ReportMetric(p.Metric("breakwater_aggregator_pods", ""), "pods")
	l.ReportMetric(p.Metric("breakwater_aggregator_slots", ""), "slots")
	l.ReportMetric(0, "ns/op")
	p.Stop()
}

// protectorsOf returns how many protectors are in the slots that a shard has claimed.
func (l *benchFixture) protectorsOf(shard string) (n int) {
	l.Helper()
	cell := &v1alpha1.Cell{}
	l.check(l.core.Get(l.Context(), client.ObjectKey{Name: benchCell}, cell))
	var slots slot.Set
	if entry := ownership.EntryOf(cell, shard); entry != nil {
		slots, _ = slot.Parse(entry.Slots)
	}
	for app := range l.protectors {
		if slots.Has(slot.Of(largecluster.Namespace(app))) {
			n++
		}
	}
	return n
}
