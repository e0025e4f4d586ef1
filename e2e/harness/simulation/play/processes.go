package play

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/webhook"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// processes starts our components, and knows which exist.
type processes struct {
	env *environment

	mu               sync.Mutex
	webhookProcesses []*process
	aggregators      []*process
	generators       []*process
	secondGenerators []*process
	topologies       []*process
	killed           []*process
}

func (ps *processes) newProcess(name string) *process {
	p := &process{
		name: name, env: ps.env, cores: map[string]*apiserver.Link{}, cells: map[string]*apiserver.Link{}, pauseState: &pauseState{},
		ended: make(chan struct{}), startedAt: time.Now(),
	}
	for _, c := range ps.env.cores {
		p.cores[c.name] = c.store.NewLink(name+"@"+c.name, ps.env.dice)
	}
	for _, c := range ps.env.workers {
		p.cells[c.name] = c.store.NewLink(name+"@"+c.name, ps.env.dice)
		if ps.env.scenario.Shares {
			p.cores[c.name] = c.store.NewLink(name+"-shares@"+c.name, ps.env.dice)
		}
	}
	p.forEachLink(func(l *apiserver.Link) { l.SetWeather(ps.env.storm.Weather) })
	p.judged = &judge.Replica{Name: name, StartedAt: p.startedAt}
	ps.env.judge.RecordProcessStart(p.judged)
	return p
}

// startWebhook starts a webhook for one cell, or for all cells if cell is empty.
func (ps *processes) startWebhook(name, cell string) *process {
	p := ps.newProcess(name)
	p.cell, p.startAgain = cell, func() *process { return ps.startWebhook(name, cell) }
	first, cores, detectors := ps.env.cores[0].name, ps.coresOf(cell), map[string]*clusters.RestoreDetector{}
	for _, c := range cores {
		detectors[c.name] = &clusters.RestoreDetector{}
	}
	p.runManager(p.cores[first], clusters.CacheOptionsOf(detectors[first]), func(_ context.Context, mgr manager.Manager) error {
		options := webhook.Options{
			Cores: map[string]cluster.Cluster{first: mgr}, RestoreDetectors: detectors, Cells: map[string]*rest.Config{}, Metrics: prometheus.NewRegistry(), Now: p.now,
			BeforeFlush: p.delayBatch, SinceBoot: func() time.Duration { return time.Since(p.startedAt) },
		}
		for _, c := range cores[1:] {
			other, err := cluster.New(p.cores[c.name].Config(), func(o *cluster.Options) {
				o.Scheme, o.MapperProvider, o.Logger = ps.env.scheme, p.managerOptions(clusters.CacheOptions()).MapperProvider, logr.Discard()
				o.Cache = clusters.CacheOptionsOf(detectors[c.name])
			})
			if err != nil {
				return err
			}
			options.Cores[c.name] = eventDiscardingCluster{other}
		}
		for name, link := range p.cells {
			if cell == "" || cell == name {
				options.Cells[name] = link.Config()
			}
		}
		options.Peers = &reserve.Peers{
			Self: name, All: func() []string { return ps.webhookNames(cell) }, Client: &http.Client{Transport: &replicaTransport{from: p, processes: ps}},
		}
		var err error
		p.handler, err = webhook.NewProtection(mgr, options)
		return err
	})
	return p
}

func (ps *processes) startAggregator(name, core, cell string) *process {
	p, detector := ps.newProcess(name), &clusters.RestoreDetector{}
	p.cell, p.startAgain = cell, func() *process { return ps.startAggregator(name, core, cell) }
	if ps.env.scenario.Shared {
		p.interest = &clusters.CacheFilter{}
	}
	p.runManager(p.cores[core], clusters.CacheOptionsOf(detector), func(ctx context.Context, mgr manager.Manager) error {
		options := aggregator.Options{
			// One worker: two would send the same list at one instant and race for the same random draw.
			Workers: 1,
			Cell:    cell, CellConfig: p.cells[cell].Config(), Identity: name, LeaseNamespace: scenario.LeaseNamespace,
			LeaseDuration: scenario.LeaseDuration, Heartbeat: 10 * time.Second, Metrics: prometheus.NewRegistry(), Now: p.now, RestoreDetector: detector,
		}
		if ps.env.scenario.Shared {
			membership, err := p.joinRing(ctx, orderedEventManager{mgr}, cell)
			if err != nil {
				return err
			}
			options.Membership, options.Interest = membership, p.interest
		}
		options.ReportGaps, options.LabelRetention = ps.env.scenario.Scope.Protected, ps.env.scenario.Scope.Retention
		if err := p.setUpShares(mgr, core, &options); err != nil {
			return err
		}
		return aggregator.SetupWithManager(ctx, orderedEventManager{mgr}, options)
	})
	return p
}

// startGenerator starts the generator, which runs only at the first core, and the keeper of a core.
func (ps *processes) startGenerator(name, core string) *process {
	p := ps.newProcess(name)
	p.startAgain = func() *process { return ps.startGenerator(name, core) }
	p.runManager(p.cores[core], generatorCache(), func(ctx context.Context, mgr manager.Manager) error {
		held, err := p.setUpBrake(ctx, mgr, core)
		if err != nil {
			return err
		}
		options := generator.Options{
			Brake: held, Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}), Registry: prometheus.NewRegistry(),
			Kinds: generator.AllKinds()[:1],
		}
		if ps.env.scenario.IsKept() {
			losses := keeper.NewLosses()
			options.Losses = losses
			if err := keeper.Setup(ctx, delayedReadManager{orderedEventManager{mgr}}, prometheus.NewRegistry(), losses, nil, held); err != nil {
				return err
			}
		}
		if !ps.env.scenario.Generated || core != ps.env.cores[0].name {
			return nil
		}
		return generator.Setup(ctx, mgr, options)
	})
	return p
}

// generatorCache returns the options of the generator's cache, for the kinds that the API servers have.
func generatorCache() cache.Options {
	options := generator.CacheOptions()
	kinds := apiserver.Kinds()
	maps.DeleteFunc(options.ByObject, func(object client.Object, _ cache.ByObject) bool {
		return !slices.ContainsFunc(kinds, func(k apiserver.Kind) bool { return reflect.TypeOf(k.New()) == reflect.TypeOf(object) })
	})
	return options
}

// webhookNames returns the addresses of the replicas for a cell, including killed ones that are not replaced yet.
func (ps *processes) webhookNames(cell string) []string {
	var names []string
	for _, p := range ps.webhooksOf(cell) {
		names = append(names, p.name)
	}
	return names
}

// webhooksOf returns the replicas for a cell.
func (ps *processes) webhooksOf(cell string) []*process {
	return slices.DeleteFunc(ps.webhooks(), func(p *process) bool { return p.cell != "" && p.cell != cell })
}

func (ps *processes) webhooks() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return append([]*process(nil), ps.webhookProcesses...)
}

func (ps *processes) startProcesses() {
	for _, cell := range ps.servedCells() {
		for i := range ps.env.scenario.Webhooks {
			ps.webhookProcesses = append(ps.webhookProcesses, ps.startWebhook(webhookName(cell, i), cell))
		}
	}
	for _, core := range ps.env.cores {
		for _, worker := range ps.env.workers {
			for i := range ps.env.scenario.AggregatorsPerCell {
				ps.aggregators = append(ps.aggregators, ps.startAggregator(aggregatorName(core.name, worker.name, i), core.name, worker.name))
			}
		}
	}
	ps.startShareAggregators()
	for i, core := range ps.env.cores {
		if ps.env.scenario.IsKept() {
			ps.generators = append(ps.generators, ps.startGenerator(fmt.Sprint("generator-", i), core.name))
		}
		if ps.env.scenario.Topology.Runs {
			ps.topologies = append(ps.topologies, ps.startTopology(fmt.Sprint("topology-", i), core.name))
		}
	}
}

// replace puts the replacement of a process that has ended in its place in a list.
func (ps *processes) replace(all *[]*process, old, replacement *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	(*all)[slices.Index(*all, old)] = replacement
	ps.killed = append(ps.killed, old)
}

func (ps *processes) allProcesses() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var all []*process
	for _, list := range [][]*process{ps.webhookProcesses, ps.aggregators, ps.generators, ps.secondGenerators, ps.topologies} {
		all = append(all, list...)
	}
	return all
}

// shown returns the version up to which each process has received the protectors of a core.
func (ps *processes) shown(core string) map[string]uint64 {
	shown := map[string]uint64{}
	for _, p := range ps.allProcesses() {
		shown[p.name] = p.seenVersions()[core]
	}
	return shown
}

func aggregatorName(core, cell string, i int) string {
	return fmt.Sprintf("aggregator-%s-%s-%d", core, cell, i)
}

// watchedVersions returns for each webhook the version up to which it has received the protectors of each core.
func (ps *processes) watchedVersions() (all []judge.WatchedVersions) {
	for _, p := range ps.webhooks() {
		all = append(all, judge.WatchedVersions{Webhook: p.name, ByCore: p.seenVersions()})
	}
	return all
}

func (ps *processes) generatorNames() (names []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.generators {
		names = append(names, p.name)
	}
	return names
}
