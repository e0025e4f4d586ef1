package aggregator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/children"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

var processPods = flag.Int("pods", 100_000, "pods that BenchmarkProcessMemory makes on a real apiserver")

// BenchmarkProcessMemory runs the program beside a real apiserver, for the same protectors without and with a crowd
// of pods, and reports the memory that the kernel says it has: what a container's limit is about. In the end the
// apiserver is restarted, so that all pods are listed once more beside those that are known.
func BenchmarkProcessMemory(b *testing.B) {
	l := newLaboratory(b)
	protect(b, l.core)
	floor := l.run(0)
	before := floor.settle()
	floor.stop()
	assemble(b, testplane.Config(b), *processPods)
	for b.Loop() {
		r := l.run(*processPods)
		b.ReportMetric(r.first.Seconds(), "first-aggregation-s")
		after := r.settle()
		b.ReportMetric(after, "aggregator-MiB-settled")
		b.ReportMetric(r.memory("VmHWM"), "aggregator-MiB-peak")
		b.ReportMetric(before, "podless-MiB-settled")
		b.ReportMetric((after-before)*(1<<20)/float64(*processPods), "B/pod")
		r.relist()
		b.ReportMetric(r.memory("VmHWM"), "relist-MiB-peak")
		r.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// laboratory is where the program runs.
type laboratory struct {
	*testing.B
	core      client.Client
	namespace string // of the leases
	program   string
	runs      int
}

const crowdCell = "crowd"

func newLaboratory(b *testing.B) *laboratory {
	b.Helper()
	l := &laboratory{B: b, namespace: testplane.Namespace(b), program: filepath.Join(b.TempDir(), "breakwater")}
	var err error
	l.core, err = client.New(testplane.Config(b), client.Options{Scheme: fleet.Scheme()})
	l.must(err)
	l.must(l.core.Create(b.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: crowdCell}}))
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", l.program, "../cmd/breakwater").CombinedOutput(); err != nil {
		b.Fatalf("build breakwater: %v\n%s", err, out)
	}
	return l
}

func (l *laboratory) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run is a run of the program.
type run struct {
	*laboratory
	ctx      context.Context // ends when it takes too long
	identity string
	pid      int
	// first is how long it took from the start until all protectors were written.
	first time.Duration
	stop  func()
}

// run starts the program and returns when it has written all protectors. No pod may be missing.
func (l *laboratory) run(pods int) *run {
	l.Helper()
	l.runs++
	r := &run{laboratory: l, identity: fmt.Sprint("run-", l.runs)}
	log, err := os.Create(filepath.Join(l.TempDir(), r.identity+".log"))
	l.must(err)
	kubeconfig := testplane.Kubeconfig(l)
	command := exec.Command(l.program, "aggregator", "--cell="+crowdCell, "--core-kubeconfig="+kubeconfig, "--kubeconfig="+kubeconfig,
		"--identity="+r.identity, "--leader-election-namespace="+l.namespace, "--health-listen=0", "--metrics-listen=0")
	command.Stderr, command.Env = log, []string{"HOME=" + os.TempDir()}
	spawner := children.NewSpawner()
	ctx, cancel := context.WithTimeoutCause(l.Context(), 10*time.Minute, errors.New("waited too long"))
	began := time.Now()
	l.must(spawner.Start(command))
	r.ctx, r.pid = ctx, command.Process.Pid
	r.stop = sync.OnceFunc(func() {
		if err := errors.Join(command.Process.Signal(os.Interrupt), command.Wait()); err != nil {
			l.Errorf("aggregator: %v", err)
		}
		cancel()
		spawner.Close()
		log.Close()
	})
	l.Cleanup(r.stop)
	r.await(pods)
	r.first = time.Since(began)
	return r
}

// await returns when this run has written all protectors, with so many pods.
func (r *run) await(pods int) {
	r.Helper()
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for {
		protectors := &v1alpha1.PodProtectorList{}
		err := r.core.List(r.ctx, protectors)
		written, counted := 0, 0
		for i := range protectors.Items {
			if cell := quota.CellOf(&protectors.Items[i], crowdCell); cell != nil && cell.Aggregation.Holder == r.identity {
				written, counted = written+1, counted+int(cell.Aggregation.TotalReplicas)
			}
		}
		if written == crowdReplicaSets && counted == pods {
			return
		}
		select {
		case <-look.C:
		case <-r.ctx.Done():
			r.Fatalf("%d protectors are written with %d pods (%v): %v", written, counted, err, context.Cause(r.ctx))
		}
	}
}

// relist makes the program list all pods anew, by an apiserver that does not know any more what happened since. A
// pod that is made then is counted after that list.
func (r *run) relist() {
	r.Helper()
	// 5 makes the kernel forget the peak.
	r.must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.pid), []byte("5"), 0))
	testplane.RestartAPIServer(r)
	p := crowdPod(*processPods)
	r.must(r.core.Create(r.ctx, p))
	r.await(*processPods + 1)
	now := int64(0)
	r.must(r.core.Delete(r.ctx, p, &client.DeleteOptions{GracePeriodSeconds: &now}))
	r.await(*processPods)
}
