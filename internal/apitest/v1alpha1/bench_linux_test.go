package v1alpha1_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// BenchmarkStatusWrite measures the CPU time of the API server for one write of a status that has a number of open reservations. Each
// write settles the oldest reservation and makes another one, as it is stored with the default compactThreshold, or all of them single.
// Without reservations it changes only a count.
func BenchmarkStatusWrite(b *testing.B) {
	config := rest.CopyConfig(testplane.Config(b))
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	for name, threshold := range map[string]int32{"stored": quota.DefaultCompactThreshold, "single": 1000} {
		for _, reservations := range []int{0, 20, 100} {
			b.Run(fmt.Sprintf("as=%s/reservations=%d", name, reservations), func(b *testing.B) {
				p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: testplane.Namespace(b), GenerateName: "bench-"}}
				p.Spec.MinAvailable, p.Spec.Selector = v1alpha1.Pods(1), &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
				p.Spec.AdmissionHistory.CompactThreshold = &threshold
				if err := c.Create(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				writer := reservationWriter{open: reservations}
				writer.addCell(p)
				writer.replaceOldest(p)
				before := measure.APIServerCPU()
				for b.Loop() {
					if err := c.Status().Update(b.Context(), p); err != nil {
						b.Fatal(err)
					}
					writer.replaceOldest(p)
				}
				b.ReportMetric((measure.APIServerCPU()-before).Seconds()*1000/float64(b.N), "apiserver-ms/op")
			})
		}
	}
}

// reservationWriter keeps a number of reservations open.
type reservationWriter struct{ open, made int }

// addCell adds a counted cell with more pods than the benchmark removes.
func (w *reservationWriter) addCell(p *v1alpha1.PodProtector) {
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "cell-0", Aggregation: v1alpha1.Aggregation{
		TotalReplicas: 1000, AvailableReplicas: 1000, CountedReplicas: 1000, ReadyReplicas: 1000, RunningReplicas: 1000, ScheduledReplicas: 1000,
		CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", LastEventTime: metav1.NowMicro(), Epoch: 1, Holder: "aggregator-0",
	}}}
}

// replaceOldest settles the oldest reservation if as many as wanted are open, and fills up with others.
func (w *reservationWriter) replaceOldest(p *v1alpha1.PodProtector) {
	cell, oldest := &p.Status.Cells[0], w.uid(w.made-w.open)
	cell.Aggregation.TotalReplicas++
	quota.Settle(&cell.AdmissionHistory, func(r quota.Reservation) quota.Observation {
		if r.Hash == quota.HashUID(oldest) {
			return quota.Absent
		}
		return quota.Alive
	})
	for quota.Open(&cell.AdmissionHistory) < w.open {
		quota.Decide(p, []quota.Removal{{
			Cell: cell.CellID, PodUID: w.uid(w.made), PodName: fmt.Sprint("web-", w.made), Operation: v1alpha1.OperationDelete, At: time.Now(),
		}})
		w.made++
	}
	quota.Compact(p, cell.CellID, time.Now())
	quota.Summarize(p)
}

func (w *reservationWriter) uid(n int) types.UID {
	return types.UID(fmt.Sprintf("1d6f0f3a-7f0f-4d3e-9c56-%012d", max(n, 0)))
}
