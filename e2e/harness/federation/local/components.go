package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// components runs the components of one cluster.
type components struct {
	cluster  string
	layout   layout
	order    []federation.Component // of starting
	programs map[federation.Component]string
	flags    *flags
	grace    time.Duration
	spawner  *subprocess.Spawner
	probes   map[federation.Component]func(context.Context) error
	// onDeath is called for each component that exits by itself, onLaunch for each that starts.
	onDeath  func(*Death)
	onLaunch func(federation.Component, *subprocess.Process) error

	mu        sync.Mutex // guards the following fields, and serializes operations on components
	processes map[federation.Component]*subprocess.Process
	stopped   bool
}

// connectProbes prepares awaitWorking.
func (c *components) connectProbes(i *identities) error {
	for component, config := range map[federation.Component]*rest.Config{federation.Etcd: i.etcd, federation.APIServer: i.admin} {
		probe, err := readiness(config)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.cluster, err)
		}
		c.probes[component] = probe
	}
	return nil
}

// awaitWorking waits until a component works. Controllers have no health port, so a running process is sufficient.
func (c *components) awaitWorking(ctx context.Context, component federation.Component) error {
	probe, ok := c.probes[component]
	if !ok {
		return nil
	}
	return federation.Await(ctx, pollInterval, fmt.Sprintf("%s of cluster %s", component, c.cluster), probe)
}

// launch starts a component's process.
func (c *components) launch(component federation.Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launchLocked(component)
}

func (c *components) launchLocked(component federation.Component) error {
	cmd := exec.Command(c.programs[component], c.flags.of(component)...)
	cmd.Dir = c.layout.folder
	// Pass only Go's garbage collector setting: a proxy variable or a kubeconfig would change the component's behavior.
	cmd.Env = []string{"HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir}
	if pace, ok := os.LookupEnv("GOGC"); ok {
		cmd.Env = append(cmd.Env, "GOGC="+pace)
	}
	p, err := c.spawner.Run(cmd, c.layout.log(component), func(p *subprocess.Process) {
		c.onDeath(&Death{Cluster: c.cluster, Component: component, How: p.Death()})
	})
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	c.processes[component] = p
	return c.onLaunch(component, p)
}

// stop ends the components in the reverse order of their start. Those that only use the API server end together.
func (c *components) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	var clients sync.WaitGroup
	results := make([]error, len(c.order)-2)
	for i, component := range c.order[2:] {
		clients.Go(func() { results[i] = c.stopComponent(ctx, component) })
	}
	clients.Wait()
	return errors.Join(append(results, c.stopComponent(ctx, federation.APIServer), c.stopComponent(ctx, federation.Etcd))...)
}

func (c *components) stopComponent(ctx context.Context, component federation.Component) error {
	p, ok := c.processes[component]
	if !ok {
		return nil
	}
	grace := c.grace
	if component == federation.Etcd {
		// etcd would wait for its clients' streams to end, and has nothing else to clean up: see --unsafe-no-fsync.
		grace = 0
	}
	if err := p.Terminate(ctx, grace); err != nil {
		return fmt.Errorf("stop %s of cluster %s: %w", component, c.cluster, err)
	}
	return nil
}

// apply calls fault with the process of a component.
func (c *components) apply(component federation.Component, fault func(*subprocess.Process) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.processLocked(component)
	if err != nil {
		return err
	}
	if err := fault(p); err != nil {
		return fmt.Errorf("%s of cluster %s: %w", component, c.cluster, err)
	}
	return nil
}

func (c *components) processLocked(component federation.Component) (*subprocess.Process, error) {
	if c.stopped {
		return nil, federation.ErrStopped
	}
	if !slices.Contains(c.order, component) {
		return nil, fmt.Errorf("cluster %s has no component %s; its components are %q", c.cluster, component, c.order)
	}
	return c.processes[component], nil
}

// restart implements Cluster.Restart.
func (c *components) restart(ctx context.Context, component federation.Component) error {
	p, err := c.relaunch(ctx, component)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Ended:
			cancel(fmt.Errorf("the process exited: %s", p.Death()))
		case <-ctx.Done():
		}
	}()
	return c.awaitWorking(ctx, component)
}

func (c *components) relaunch(ctx context.Context, component federation.Component) (*subprocess.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.processLocked(component); err != nil {
		return nil, err
	}
	if err := c.stopComponent(ctx, component); err != nil {
		return nil, err
	}
	if err := c.launchLocked(component); err != nil {
		return nil, err
	}
	return c.processes[component], nil
}
