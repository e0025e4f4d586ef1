package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// readyPause is the interval between readiness checks.
const readyPause = 50 * time.Millisecond

// component is a program to run.
type component struct {
	name, program string
	arguments     []string
	// metrics is the port of /metrics; nil if there is none, or before the first start. It stays the same across restarts.
	metrics *port.Claim
}

// process is a running component.
type process struct {
	component
	*subprocess.Process
	health string // address of /readyz
}

func startProcess(s *subprocess.Spawner, c component, health, log string) (*process, error) {
	metrics := "0"
	if c.metrics != nil {
		metrics = c.metrics.Address()
	}
	arguments := append(slices.Clone(c.arguments), "--health-listen="+health, "--metrics-listen="+metrics, "--log-format=text")
	cmd := exec.Command(c.program, arguments...)
	// The process inherits no environment: a KUBECONFIG or a proxy variable in it would change its behavior.
	cmd.Env = []string{"HOME=" + os.TempDir()}
	started, err := s.Run(cmd, log, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return &process{component: c, Process: started, health: health}, nil
}

// awaitReady returns when the component is ready.
func (p *process) awaitReady(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, readyPause, true, func(ctx context.Context) (bool, error) {
		if !p.IsRunning() {
			return false, p.death()
		}
		err := subprocess.CheckReady(ctx, p.health)
		if last == nil || ctx.Err() == nil {
			last = err // do not replace a more informative error by the end of the wait
		}
		return err == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for %s to be ready (%w; its log is %s): %w", p.name, last, p.Log, err)
	}
	return err
}

// death returns the error for a process that ended by itself.
func (p *process) death() error { return fmt.Errorf("%s died: %s", p.name, p.Death()) }
