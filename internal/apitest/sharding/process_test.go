package sharding_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// program builds the example once and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "example")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/breakwater-k8s/breakwater/api/sharding/example").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the example: %w\n%s", err, out)
	}
	return path, nil
})

// process is a running example.
type process struct {
	*ring
	shard string
	// identity is the holder of the Lease while this process holds it.
	identity string
	command  *exec.Cmd
	log      string
	// ended is closed when the process has ended.
	ended chan struct{}
}

// start starts a shard that writes summaries of its Deployments every 50 ms.
func (r *ring) start(shard string, arguments ...string) *process {
	r.Helper()
	path, err := program()
	if err != nil {
		r.Fatal(err)
	}
	log, err := os.CreateTemp(r.TempDir(), shard)
	if err != nil {
		r.Fatal(err)
	}
	p := &process{ring: r, shard: shard, log: log.Name(), ended: make(chan struct{})}
	p.command = exec.Command(path, append([]string{"--kubeconfig=" + r.kubeconfig(), "--ring=" + r.name, "--name=" + shard, "--every=50ms"}, arguments...)...)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	r.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
		log.Close()
		if r.Failed() {
			r.Logf("log of %s, %s:\n%s", shard, p.command.ProcessState, p.output())
		}
	})
	return p
}

// join starts a shard and waits until it holds its Lease.
func (r *ring) join(shard string, arguments ...string) *process {
	r.Helper()
	before := r.holder(shard)
	p := r.start(shard, arguments...)
	p.awaitLease(before)
	return p
}

// awaitLease waits until an incarnation other than before holds the Lease with the shard's name. It assumes that this incarnation
// is the process.
func (p *process) awaitLease(before string) {
	p.Helper()
	testplane.Eventually(p, func() string {
		p.identity = p.holder(p.shard)
		if p.identity == before || !strings.HasPrefix(p.identity, p.shard+"_") || p.identity == p.shard+"_" {
			return fmt.Sprintf("the Lease of %s is held by %q, before %q", p.shard, p.identity, before)
		}
		return ""
	})
}

func (p *process) signal(signal syscall.Signal) {
	p.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.Fatal(err)
	}
}

// awaitEnd waits until the process has ended, and returns its exit code.
func (p *process) awaitEnd() int {
	p.Helper()
	testplane.Eventually(p, func() string {
		select {
		case <-p.ended:
			return ""
		default:
			return "shard " + p.shard + " continues"
		}
	})
	return p.command.ProcessState.ExitCode()
}

func (p *process) output() string {
	p.Helper()
	content, err := os.ReadFile(p.log)
	if err != nil {
		p.Fatal(err)
	}
	return string(content)
}

func (p *process) wantOutput(word string) {
	p.Helper()
	if !strings.Contains(p.output(), word) {
		p.Errorf("log of %s does not contain %q", p.shard, word)
	}
}

// wantNoMoreWrites fails the test if the process has written after a resourceVersion.
func (p *process) wantNoMoreWrites(after int64) {
	p.Helper()
	if late := p.record.writesOf(p.identity, after); len(late) > 0 {
		p.Errorf("%s wrote after %d: %v", p.identity, after, late)
	}
}
