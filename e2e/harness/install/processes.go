package install

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// defaultGrace is the default time that a process may take to end before it is killed.
const defaultGrace = 5 * time.Second

// Processes are components that run as separate processes, each with a log in a directory. Like all components of Breakwater,
// they support --health-listen, --metrics-listen and --log-format.
type Processes struct {
	dir       string
	grace     time.Duration
	spawner   *subprocess.Spawner
	mu        sync.Mutex
	processes map[string]*process // by component
	died      chan error
	// metrics makes them serve metrics.
	metrics bool
}

// NewProcesses returns an empty set. Logs go to a directory. grace is how long each process may take to end; 0 means five
// seconds.
func NewProcesses(dir string, grace time.Duration) *Processes {
	if grace == 0 {
		grace = defaultGrace
	}
	return &Processes{dir: dir, grace: grace, spawner: subprocess.NewSpawner(), processes: map[string]*process{}, died: make(chan error, 1)}
}

// Start runs a program as a component, and returns when it is ready.
func (p *Processes) Start(ctx context.Context, name, program string, arguments ...string) error {
	return p.startOne(ctx, component{name: name, program: program, arguments: arguments})
}

// startAll starts all components in parallel and waits until the last is ready.
func (p *Processes) startAll(ctx context.Context, wanted []component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a failure ends the wait for the others
	results := make(chan error, len(wanted))
	for _, c := range wanted {
		go func() {
			results <- p.startOne(ctx, c)
		}()
	}
	var all []error
	for range wanted {
		if err := <-results; err != nil && (len(all) == 0 || !errors.Is(err, context.Canceled)) {
			all = append(all, err)
			cancel()
		}
	}
	return errors.Join(all...)
}

func (p *Processes) startOne(ctx context.Context, c component) error {
	health, err := port.NewClaim()
	if err != nil {
		return err
	}
	if p.metrics && c.metrics == nil {
		if c.metrics, err = port.NewClaim(); err != nil {
			health.Release()
			return err
		}
	}
	started, err := startProcess(p.spawner, c, health.Address(), filepath.Join(p.dir, c.name+".log"))
	if err != nil {
		health.Release()
		return err
	}
	go func() {
		<-started.Ended
		health.Release()
	}()
	p.mu.Lock()
	p.processes[c.name] = started
	p.mu.Unlock()
	if err := started.awaitReady(ctx); err != nil {
		return err
	}
	go func() {
		<-started.Ended
		if started.HasDied() {
			select {
			case p.died <- started.death():
			default: // the first death is enough
			}
		}
	}()
	return nil
}

// MetricsAddresses returns the addresses of the metrics of running components by component name. It is empty unless metrics are enabled.
func (p *Processes) MetricsAddresses() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	addresses := map[string]string{}
	for name, one := range p.processes {
		if one.metrics != nil && one.IsRunning() {
			addresses[name] = one.metrics.Address()
		}
	}
	return addresses
}

// Died returns a channel with the first component that ended by itself after it was ready.
func (p *Processes) Died() <-chan error { return p.died }

// End ends all processes and returns when none is left. No process can be started afterwards.
func (p *Processes) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ending sync.WaitGroup
	for _, one := range p.processes {
		ending.Go(func() { _ = one.Terminate(context.Background(), p.grace) }) // it has ended then
	}
	ending.Wait()
	p.spawner.Close()
	for _, one := range p.processes {
		if one.metrics != nil {
			one.metrics.Release()
		}
	}
}
