package charts_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// BenchmarkConfinedStatusWrite compares status writes by the account of a cell, which the chart's policy restricts, with those by the shared
// account, which it does not restrict. They alternate every 20 writes, so that a machine that gets slower does not change the ratio.
func BenchmarkConfinedStatusWrite(b *testing.B) {
	admin := testplane.Client(b)
	err := admin.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	c := newCore(b, admin, "bench")
	c.awaitPolicies(c.protector(nil))
	shared := c.sharedClient()
	for _, size := range []struct{ cells, reservations int }{{2, 0}, {2, 20}, {2, 100}, {20, 20}, {200, 20}} {
		b.Run(fmt.Sprintf("cells=%d/reservations=%d", size.cells, size.reservations), func(b *testing.B) {
			stored := &v1alpha1.PodProtector{}
			of := *c
			of.TB = b
			at := client.ObjectKeyFromObject(of.protector(func(p *v1alpha1.PodProtector) { addCells(p, size.cells, size.reservations) }))
			if err := admin.Get(b.Context(), at, stored); err != nil {
				b.Fatal(err)
			}
			number := 0
			write := func(user client.Client, writes int) (processor float64, elapsed time.Duration) {
				before, began := measure.APIServerCPU(), time.Now()
				for range writes {
					number++
					bucket := v1alpha1.Bucket{StartTime: metav1.NewMicroTime(fillTime), Counter: 1, PodUID: "written", PodName: strconv.Itoa(number)}
					h := &stored.Status.Cells[0].AdmissionHistory
					h.Buckets = append(h.Buckets[:size.reservations:size.reservations], bucket)
					if err := user.Status().Update(b.Context(), stored); err != nil {
						b.Fatal(err)
					}
				}
				elapsed = time.Since(began)
				return (measure.APIServerCPU() - before).Seconds(), elapsed
			}
			write(c.cell, 20)
			write(shared, 20)
			var confined, unrestricted float64
			var confinedTime, unrestrictedTime time.Duration
			writes := 0
			for b.Loop() {
				processor, elapsed := write(c.cell, 20)
				confined, confinedTime = confined+processor, confinedTime+elapsed
				processor, elapsed = write(shared, 20)
				unrestricted, unrestrictedTime = unrestricted+processor, unrestrictedTime+elapsed
				writes += 20
			}
			b.ReportMetric(1000*confined/float64(writes), "confined-apiserver-ms/write")
			b.ReportMetric(1000*unrestricted/float64(writes), "shared-apiserver-ms/write")
			b.ReportMetric(confined/unrestricted, "apiserver-ratio")
			b.ReportMetric(confinedTime.Seconds()/unrestrictedTime.Seconds(), "latency-ratio")
		})
	}
}
