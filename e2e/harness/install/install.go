// Package install runs Breakwater beside a federation, as real processes of its one program, like a user would: a generator and a
// topology controller for each core, an aggregator for each worker of each core, and several webhooks for all.
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

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// SystemNamespace in each core cluster holds the Leases of the components.
const SystemNamespace = "breakwater-system"

// Options configure what to run.
type Options struct {
	// Program is the path of breakwater.
	Program string
	// Dir is the directory for certificates and logs. It must exist.
	Dir string
	// Cores and Workers may have clusters in common.
	Cores, Workers []federation.Cluster
	// WebhookReplicas is the number of webhooks; 0 means two.
	WebhookReplicas int
	// CellsByObjects makes the components read the cells, and how to reach them, from the Cells of the cores. No flag names a
	// cell, and one aggregator of each core counts for all.
	CellsByObjects bool
	// AggregatorShards is the number of aggregators of each core that share the cells as shards of the ring AggregatorRing; 0
	// means that one aggregator leads. The shards read the cells from the Cells, as with CellsByObjects. ShardLease is how long a
	// shard that does not answer keeps its slots.
	AggregatorShards int
	ShardLease       time.Duration
	// Scheduling enables scheduling policies in the webhooks, and makes the workers' API servers call them for pods and
	// workloads.
	Scheduling bool
	// WithoutCells leaves the Cells, and the Secrets with their kubeconfigs, to the caller.
	WithoutCells bool
	// AggregatorArguments are additional arguments of the aggregators.
	AggregatorArguments []string
	// AdmissionDeadline is the admissionDeadline of the Cells; 0 means the API's default.
	AdmissionDeadline time.Duration
	// Kubeconfig returns the kubeconfig file that a component uses for a cluster, for tests that put a proxy in between. nil
	// means the cluster's own.
	Kubeconfig func(component string, cluster federation.Cluster) string
	// Shares gives the cells shares of protectors with coreOutage LocalShare.
	Shares bool
	// CallerTokens makes the API servers authenticate at the webhooks, with tokens.
	CallerTokens bool
	// Metrics makes the components serve metrics: see MetricsAddresses.
	Metrics bool
	// Grace is how long a process may take to end before it is killed. 0 means five seconds.
	Grace time.Duration
}

// Installation is a running Breakwater.
type Installation struct {
	*Processes
	options  Options
	webhooks *webhooks
	stop     sync.Once
}

// Start runs all components and returns when each is ready. No removal is denied before Guard is called.
func Start(ctx context.Context, options Options) (*Installation, error) {
	if options.WebhookReplicas == 0 {
		options.WebhookReplicas = 2
	}
	if options.Kubeconfig == nil {
		options.Kubeconfig = func(_ string, cluster federation.Cluster) string { return cluster.Kubeconfig() }
	}
	i := &Installation{options: options, Processes: NewProcesses(options.Dir, options.Grace)}
	i.metrics = options.Metrics
	if err := i.start(ctx); err != nil {
		i.Stop()
		return nil, err
	}
	return i, nil
}

func (i *Installation) start(ctx context.Context) error {
	if err := errors.Join(i.prepareCores(ctx), i.prepareShares(ctx)); err != nil {
		return err
	}
	var err error
	if i.webhooks, err = i.newWebhooks(); err != nil {
		return err
	}
	wanted := append(slices.Clone(i.webhooks.replicas), i.shareAggregators()...)
	for _, core := range i.options.Cores {
		wanted = append(wanted, component{name: GeneratorName(core.Name()), arguments: []string{
			"generator", "--kubeconfig=" + i.options.Kubeconfig(GeneratorName(core.Name()), core), "--leader-elect=false",
		}}, component{name: TopologyName(core.Name()), arguments: []string{
			"topology", "--kubeconfig=" + i.options.Kubeconfig(TopologyName(core.Name()), core), "--leader-elect=false",
		}})
		wanted = append(wanted, i.aggregators(core)...)
	}
	for n := range wanted {
		wanted[n].program = i.options.Program
	}
	return i.startAll(ctx, wanted)
}

// aggregators returns the aggregators of a core.
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
		add(SharedAggregatorName(core.Name()), "--all-cells")
		return wanted
	}
	for _, worker := range i.options.Workers {
		name := AggregatorName(core.Name(), worker.Name())
		add(name, "--cell="+worker.Name(), "--kubeconfig="+i.options.Kubeconfig(name, worker), fmt.Sprintf("--shares=%v", i.options.Shares))
	}
	return wanted
}

// Stop ends all processes and returns when none is left. Objects in the clusters stay.
func (i *Installation) Stop() {
	i.stop.Do(func() {
		i.End()
		if i.webhooks != nil {
			i.webhooks.close()
		}
	})
}

// folder creates a directory of the installation.
func (i *Installation) folder(name string) (string, error) {
	path := filepath.Join(i.options.Dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("create a directory for %s: %w", name, err)
	}
	return path, nil
}
