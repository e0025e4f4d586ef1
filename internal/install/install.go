// Package install runs Breakwater beside a federation, as real processes of its one program, as a user would have
// them: a generator and a topology controller for each core, an aggregator for each worker of each core, and several
// webhooks for all.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/children"
	"github.com/breakwater-k8s/breakwater/internal/federation"
)

// SystemNamespace in each core cluster holds the Leases of the components.
const SystemNamespace = "breakwater-system"

// Options say what to run.
type Options struct {
	// Program is the path of breakwater.
	Program string
	// Dir takes certificates and logs. It must exist.
	Dir string
	// Cores and Workers may have clusters in common.
	Cores, Workers []federation.Cluster
	// WebhookReplicas is the number of webhooks; 0 means two.
	WebhookReplicas int
	// CellsByObjects leaves it to the Cells of the cores which cells there are, and how they are reached: no flag names any, and
	// one aggregator of each core counts for all.
	CellsByObjects bool
	// AggregatorShards is the number of aggregators of each core that share the cells out, which CellsByObjects tells of, as
	// shards of the ring AggregatorRing; 0 means that one aggregator leads. ShardLease is how long a shard keeps its slots that
	// does not answer.
	AggregatorShards int
	ShardLease       time.Duration
	// WithoutCells leaves it to somebody else to make the Cells, and the Secrets with their kubeconfigs.
	WithoutCells bool
	// AggregatorArguments are added to those of the aggregators.
	AggregatorArguments []string
	// AdmissionDeadline is that of the Cells; 0 means the API's default.
	AdmissionDeadline time.Duration
	// Kubeconfig gives the file by which a component reaches a cluster, for tests that put a proxy between the two.
	// nil means the cluster's own.
	Kubeconfig func(component string, cluster federation.Cluster) string
	// Grace is how long a process may take to end before it is killed. 0 means five seconds.
	Grace time.Duration
}

// Installation is a running Breakwater.
type Installation struct {
	options   Options
	spawner   *children.Spawner
	webhooks  *webhooks
	stop      sync.Once
	mu        sync.Mutex
	processes map[string]*process // by component
	died      chan error
}

// Start runs all components and returns when each says that it is ready. No removal is refused until Guard.
func Start(ctx context.Context, options Options) (*Installation, error) {
	if options.Grace == 0 {
		options.Grace = 5 * time.Second
	}
	if options.WebhookReplicas == 0 {
		options.WebhookReplicas = 2
	}
	if options.Kubeconfig == nil {
		options.Kubeconfig = func(_ string, cluster federation.Cluster) string { return cluster.Kubeconfig() }
	}
	i := &Installation{
		options: options, spawner: children.NewSpawner(), processes: map[string]*process{}, died: make(chan error, 1),
	}
	if err := i.start(ctx); err != nil {
		i.Stop()
		return nil, err
	}
	return i, nil
}

func (i *Installation) start(ctx context.Context) error {
	if err := i.furnishCores(ctx); err != nil {
		return err
	}
	var err error
	if i.webhooks, err = i.newWebhooks(); err != nil {
		return err
	}
	wanted := slices.Clone(i.webhooks.replicas)
	for _, core := range i.options.Cores {
		wanted = append(wanted, component{name: GeneratorName(core.Name()), arguments: []string{
			"generator", "--kubeconfig=" + i.options.Kubeconfig(GeneratorName(core.Name()), core), "--leader-elect=false",
		}}, component{name: TopologyName(core.Name()), arguments: []string{
			"topology", "--kubeconfig=" + i.options.Kubeconfig(TopologyName(core.Name()), core), "--leader-elect=false",
		}})
		wanted = append(wanted, i.aggregators(core)...)
	}
	return i.startAll(ctx, wanted)
}

// aggregators are those of a core.
func (i *Installation) aggregators(core federation.Cluster) (wanted []component) {
	add := func(name string, arguments ...string) {
		arguments = append([]string{"aggregator", "--core-kubeconfig=" + i.options.Kubeconfig(name, core)}, arguments...)
		wanted = append(wanted, component{name: name, arguments: append(arguments, i.options.AggregatorArguments...)})
	}
	for n := range i.options.AggregatorShards {
		name := AggregatorShardName(core.Name(), n)
		add(name, "--all-cells", "--ring="+AggregatorRing, "--shard="+name)
	}
	if i.options.AggregatorShards > 0 {
		return wanted
	}
	if i.options.CellsByObjects {
		add(FleetAggregatorName(core.Name()), "--all-cells")
		return wanted
	}
	for _, worker := range i.options.Workers {
		name := AggregatorName(core.Name(), worker.Name())
		add(name, "--cell="+worker.Name(), "--kubeconfig="+i.options.Kubeconfig(name, worker))
	}
	return wanted
}

// startAll starts all components at once and waits until the last is ready.
func (i *Installation) startAll(ctx context.Context, wanted []component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // one that failed ends the wait for the others
	results := make(chan error, len(wanted))
	for _, c := range wanted {
		go func() {
			results <- i.startOne(ctx, c)
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

func (i *Installation) startOne(ctx context.Context, c component) error {
	health, err := FreeAddress()
	if err != nil {
		return err
	}
	p, err := run(i.spawner, i.options.Program, c, health, filepath.Join(i.options.Dir, c.name+".log"))
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.processes[c.name] = p
	i.mu.Unlock()
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	go func() {
		<-p.ended
		if !p.wanted.Load() {
			select {
			case i.died <- p.death():
			default: // one death is enough to know
			}
		}
	}()
	return nil
}

// Died gives the first component that ended by itself after it was ready.
func (i *Installation) Died() <-chan error { return i.died }

// Stop ends all processes and returns when none is left. What was put into the clusters stays there.
func (i *Installation) Stop() {
	i.stop.Do(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		var ending sync.WaitGroup
		for _, p := range i.processes {
			ending.Go(func() { p.terminate(i.options.Grace) })
		}
		ending.Wait()
		i.spawner.Close()
		if i.webhooks != nil && i.webhooks.balancer != nil {
			i.webhooks.balancer.Close()
		}
	})
}

// folder makes a folder of the installation's own.
func (i *Installation) folder(name string) (string, error) {
	path := filepath.Join(i.options.Dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for %s: %w", name, err)
	}
	return path, nil
}
