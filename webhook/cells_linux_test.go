package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// BenchmarkCells shows the cost of further cells for a protector, on a real core. Each cell adds its counts and 20 open
// reservations, as many as are kept individually, to the object that every review writes. With fifty cells only the
// writes are measured.
func BenchmarkCells(b *testing.B) {
	program, store := measure.Build(b), newRealStore(b)
	for _, number := range []int{1, 2, 4, 8, 50} {
		b.Run(fmt.Sprint("cells=", number), func(b *testing.B) {
			var cells []string
			for cell := range number {
				cells = append(cells, fmt.Sprint("worker-", cell))
			}
			reviewed, written, idle := createWithReservations(b, store, 0, 20, cells), createWithReservations(b, store, 1, 20, cells), createWithReservations(b, store, 2, 0, cells)
			if number <= 8 {
				w := startWebhookProcess(b, program, store.kubeconfig(), cells...)
				b.Run("storm", func(b *testing.B) { w.forBenchmark(b).storm(func(int) int { return 0 }) })
				b.Run("alone", func(b *testing.B) { w.forBenchmark(b).oneByOne(0) })
				w.Stop()
			}
			b.Run("write", func(b *testing.B) { writeStatus(b, store, written) })
			b.Run("idle-write", func(b *testing.B) { writeStatus(b, store, idle) })
			for _, p := range []*v1alpha1.PodProtector{reviewed, written, idle} {
				if err := store.client.Delete(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// createWithReservations creates a protector with the given number of open reservations in each cell.
func createWithReservations(b *testing.B, store *realStore, app, reservations int, cells []string) *v1alpha1.PodProtector {
	b.Helper()
	p := counted(app, cells...)
	for _, cell := range cells {
		for i := range reservations {
			quota.Decide(p, []quota.Removal{{
				Cell: cell, PodUID: types.UID(fmt.Sprintf("0e4b1a52-35b5-4ba5-9a39-%012d", i)), PodName: fmt.Sprintf("%s-6d4cf56db6-%05d", largecluster.App(app), i),
				Operation: v1alpha1.OperationDelete, At: metav1.NowMicro().Time,
			}})
		}
	}
	quota.Summarize(p)
	if err := store.add(b, p); err != nil {
		b.Fatal(err)
	}
	return p
}

// oneByOne requests b.N removals with one caller.
func (w *webhookProcess) oneByOne(app int) { w.stormOf(1, func(int) int { return app }) }

func kibibytes(b *testing.B, object any) float64 {
	b.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	return float64(len(raw)) / 1024
}

// writeStatus writes the status b.N times with one client, and reports its size.
func writeStatus(b *testing.B, store *realStore, p *v1alpha1.PodProtector) {
	b.Helper()
	before := measure.ChildCPUTimes()["kube-apiserver"]
	b.ResetTimer()
	for range b.N {
		p.Status.Cells[0].Aggregation.CountedReplicas--
		if err := store.client.Status().Update(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(kibibytes(b, p.Status), "KiB")
	// With the managed fields, which grow with the number of cells, too.
	b.ReportMetric(kibibytes(b, p), "object-KiB")
	b.ReportMetric(b.Elapsed().Seconds()*1000/n, "write-ms")
	b.ReportMetric((measure.ChildCPUTimes()["kube-apiserver"]-before).Seconds()*1000/n, "kube-apiserver-ms/write")
}
