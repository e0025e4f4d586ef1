package webhook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

var processProtectors = flag.Int("protectors", 10_000, "most protectors that BenchmarkWebhook makes")

const (
	// callerAuthenticator is the number of concurrent callers, the same as in the storms.
	callerAuthenticator = 64
	// callerKey authenticates the callers: a webhook looks for the pod of another caller in the cell, and these pods are only in reviews.
	callerKey = "a key of the benchmark"
	// profiled is the duration of a profiled storm.
	profiled = 10 * time.Second
)

// BenchmarkWebhook runs the program with increasing numbers of protectors. A fake API server of the core cluster shows the
// capacity of the webhook; a real core shows the capacity of both on one machine. It reports memory, the time to
// readiness, and the reviews of 64 callers that connect over TLS as an API server does: spread over all protectors, and
// of a single protector. No aggregator runs, so that reservations stay.
func BenchmarkWebhook(b *testing.B) {
	program := measure.Build(b)
	stores := []protectorStore{newFakeStore(b, "worker-0"), newRealStore(b)}
	for _, store := range stores {
		for _, protectors := range measure.UpTo(*processProtectors, 10, 100, 1000) {
			b.Run(fmt.Sprintf("core=%s/protectors=%d", store.name(), protectors), func(b *testing.B) {
				store.grow(b, protectors)
				w := startWebhookProcess(b, program, store.kubeconfig(), "worker-0")
				w.reportStart(b)
				b.Run("spread", func(b *testing.B) { w.forBenchmark(b).storm(func(i int) int { return i % protectors }) })
				// The last protector is one that the smaller steps did not have.
				b.Run("one", func(b *testing.B) { w.forBenchmark(b).storm(func(int) int { return protectors - 1 }) })
				if protectors == *processProtectors && measure.TakesProfiles() {
					w.profile("webhook-"+store.name()+"-spread", func(i int) int { return i % protectors })
					w.profile("webhook-"+store.name()+"-one", func(int) int { return protectors / 2 })
				}
				w.Stop()
			})
		}
	}
}

// BenchmarkWide runs the program with protectors of many cells against the fake API server. It shows the memory of a webhook
// for many clusters, and the cost of a review.
func BenchmarkWide(b *testing.B) {
	program := measure.Build(b)
	for _, number := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("protectors=%d/cells=%d", *processProtectors, number), func(b *testing.B) {
			var cells []string
			for cell := range number {
				cells = append(cells, fmt.Sprint("worker-", cell))
			}
			store := newFakeStore(b, cells...)
			store.grow(b, *processProtectors)
			w := startWebhookProcess(b, program, store.kubeconfig(), cells...)
			w.reportStart(b)
			b.Run("spread", func(b *testing.B) { w.forBenchmark(b).storm(func(i int) int { return i % *processProtectors }) })
			w.Stop()
		})
	}
}

// webhookProcess is a webhook that runs as a process, with a client for it.
type webhookProcess struct {
	*testing.B
	*measure.Process
	address string
	client  *http.Client
	cells   []string
	serial  *atomic.Int64 // of the removed pods
	ready   time.Duration
}

func startWebhookProcess(b *testing.B, program, kubeconfig string, cells ...string) *webhookProcess {
	b.Helper()
	a := newAuthority(b)
	certificate, key := a.store(b.TempDir())
	w := &webhookProcess{B: b, address: testplane.FreeAddress(b), cells: cells, serial: &atomic.Int64{}}
	// Pods of an earlier run have other UIDs.
	w.serial.Store(time.Now().UnixNano() % (1 << 40))
	callers := b.TempDir()
	write(b, callers, webhookconfig.CurrentCallerKey, []byte(callerKey))
	arguments := []string{
		"webhook", "--core=core=" + kubeconfig, "--listen=" + w.address, "--tls-cert=" + certificate, "--tls-key=" + key, "--caller-keys=" + callers,
	}
	for _, cell := range cells {
		arguments = append(arguments, "--cell="+cell+"="+kubeconfig)
	}
	w.client = (&replica{fixture: &fixture{TB: b}, authority: a}).reader()
	w.client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	w.Process = measure.Start(b, program, arguments...)
	w.ready = w.AwaitReady()
	return w
}

// forBenchmark returns the same webhook for a sub-benchmark.
func (w *webhookProcess) forBenchmark(b *testing.B) *webhookProcess {
	part, process := *w, *w.Process
	process.TB = b
	part.B, part.Process = b, &process
	return &part
}

func (w *webhookProcess) reportStart(b *testing.B) {
	settled, peak := w.StableMemory(5*time.Second), w.Memory("VmHWM")
	b.Run("start", func(b *testing.B) {
		b.ReportMetric(w.ready.Seconds(), "ready-s")
		b.ReportMetric(settled, "webhook-MiB-settled")
		b.ReportMetric(peak, "webhook-MiB-peak")
		b.ReportMetric(0, "ns/op")
	})
}

// storm requests b.N removals of pods of the protectors that choose returns, with 64 callers. It counts only the
// allowed reviews.
func (w *webhookProcess) storm(choose func(i int) int) { w.stormOf(callerAuthenticator, choose) }

func (w *webhookProcess) stormOf(callers int, choose func(i int) int) {
	w.B.Helper()
	reviews := make(chan []byte, w.N)
	for i := range w.N {
		reviews <- w.review(choose(i))
	}
	close(reviews)
	used, others := w.CPUTime(), measure.ChildCPUTimes()
	writes, conflicts := w.writes("written"), w.writes("conflict")
	w.ResetTimer()
	each, denied := w.sendAll(reviews, callers)
	w.StopTimer()
	slices.Sort(each)
	n := float64(w.N)
	w.ReportMetric(float64(len(each))/w.Elapsed().Seconds(), "reviews/s")
	w.ReportMetric(float64(denied)/n, "refused/review")
	for _, percent := range []int{50, 99} {
		w.ReportMetric(float64(each[len(each)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
	w.ReportMetric((w.CPUTime()-used).Seconds()*1000/n, "webhook-ms/review")
	for _, program := range []string{"kube-apiserver", "etcd"} {
		if spent := measure.ChildCPUTimes()[program] - others[program]; spent > 0 {
			w.ReportMetric(spent.Seconds()*1000/n, program+"-ms/review")
		}
	}
	w.ReportMetric((w.writes("written")-writes)/n, "writes/review")
	w.ReportMetric((w.writes("conflict")-conflicts)/n, "conflicts/review")
	w.ReportMetric(w.Memory("VmHWM"), "webhook-MiB-peak")
}

func (w *webhookProcess) writes(result string) float64 {
	return w.Metric("breakwater_webhook_status_writes_total", `result="`+result+`"`)
}

// profile keeps a storm running until its profile is complete.
func (w *webhookProcess) profile(name string, choose func(i int) int) {
	w.B.Helper()
	done := w.Profile(name, profiled)
	reviews, ended := make(chan []byte), after(done)
	go func() {
		defer close(reviews)
		for i := 0; ; i++ {
			select {
			case reviews <- w.review(choose(i)):
			case <-ended:
				return
			}
		}
	}()
	w.sendAll(reviews, callerAuthenticator)
}

// review returns the review of the removal of a new pod of an application, as an API server encodes it.
func (w *webhookProcess) review(app int) []byte {
	serial := int(w.serial.Add(1))
	raw, err := json.Marshal(deleteReview(largecluster.Received(largecluster.PodOf(app, serial*largecluster.ReplicaSets), serial)))
	if err != nil {
		panic(err) // also called from a goroutine that must not fail the benchmark
	}
	return raw
}

// sendAll sends reviews. It returns how long each allowed one took, and how many were refused: the webhook refuses in
// time when the core is too slow. At least one must be allowed.
func (w *webhookProcess) sendAll(reviews <-chan []byte, callers int) (each []time.Duration, denied int) {
	w.B.Helper()
	var (
		mu      sync.Mutex
		last    error
		running sync.WaitGroup
		turn    atomic.Int64
	)
	for range callers {
		running.Go(func() {
			for body := range reviews {
				cell := w.cells[int(turn.Add(1))%len(w.cells)]
				asked := time.Now()
				err := w.send(cell, body)
				took := time.Since(asked)
				mu.Lock()
				if err != nil {
					last, denied = err, denied+1
				} else {
					each = append(each, took)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if len(each) == 0 {
		w.B.Fatalf("no removal was allowed: %v", last)
	}
	return each, denied
}

func (w *webhookProcess) send(cell string, body []byte) error {
	path := webhookconfig.CallerPath(webhookconfig.CallerToken([]byte(callerKey), "cells/"+cell), webhookconfig.RemovalPath(cell))
	response, err := w.client.Post("https://"+w.address+path+"?timeout=10s", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("%s: %s", response.Status, raw)
	}
	if !answer.Response.Allowed {
		return fmt.Errorf("refused: %+v", answer.Response.Result)
	}
	return nil
}
