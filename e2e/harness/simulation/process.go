package simulation

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/webhook"
)

const (
	leaseNamespace = "breakwater-system"
	leaseDuration  = 10 * time.Second
)

// process is one of our components. It runs its real code, and each of its connections can be held and severed.
type process struct {
	name      string
	simulator *simulator
	// cores and cells are its connections by cluster.
	cores, cells map[string]*apiserver.Link
	// skew is how far its wall clock is ahead of the true time.
	skew atomic.Int64
	// startedAt is its start time.
	startedAt time.Time
	// isStopping reports whether the process was asked to stop and is to be replaced.
	isStopping atomic.Bool
	// handler answers reviews, if the process is a webhook.
	handler    *webhook.Protection
	pauseState *pauseState
	// interest selects the protectors that a shard keeps in its cache.
	interest *clusters.CacheFilter

	stop  context.CancelFunc
	ended chan struct{}
}

// pauseState delays the callers of a process that is stopped.
type pauseState struct {
	mu       sync.Mutex
	resumed  chan struct{} // nil while the process runs
	isKilled bool
}

func (p *pauseState) set(paused, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed != nil {
		close(p.resumed)
		p.resumed = nil
	}
	p.isKilled = p.isKilled || dead
	if paused && !p.isKilled {
		p.resumed = make(chan struct{})
	}
}

func (p *pauseState) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isKilled
}

// wait waits until the process runs, and reports whether it does: not if the process is dead or ctx ends first.
func (p *pauseState) wait(ctx context.Context) bool {
	for {
		p.mu.Lock()
		over, dead := p.resumed, p.isKilled
		p.mu.Unlock()
		if dead {
			return false
		}
		if over == nil {
			return true
		}
		select {
		case <-over:
		case <-ctx.Done():
			return false
		}
	}
}

func (p *process) isGenerator() bool { return strings.HasPrefix(p.name, "generator") }

func (sim *simulator) newProcess(name string) *process {
	p := &process{
		name: name, simulator: sim, cores: map[string]*apiserver.Link{}, cells: map[string]*apiserver.Link{}, pauseState: &pauseState{},
		ended: make(chan struct{}), startedAt: time.Now(),
	}
	for _, c := range sim.cores {
		p.cores[c.name] = c.store.NewLink(name+"@"+c.name, sim.dice)
	}
	for _, c := range sim.workers {
		p.cells[c.name] = c.store.NewLink(name+"@"+c.name, sim.dice)
	}
	p.forEachLink(func(l *apiserver.Link) { l.SetWeather(sim.storm.Weather) })
	sim.judge.mu.Lock()
	defer sim.judge.mu.Unlock()
	sim.judge.history.processStarts[name] = p.startedAt
	return p
}

// seenVersions returns for each core the version up to which the process has received the protectors.
func (p *process) seenVersions() map[string]uint64 {
	known := map[string]uint64{}
	for core, link := range p.cores {
		known[core] = link.Seen()
	}
	return known
}

// delayBatch delays a batch, so that all requests for a protector at one instant join it. The delay differs by protector: one batch may
// complete at once, and its callers then continue with another protector.
func (p *process) delayBatch(protector types.NamespacedName) {
	time.Sleep(p.simulator.dice.Between(time.Nanosecond, time.Microsecond, p.name+" boarding "+protector.Name))
}

func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// pause stops the process like SIGSTOP, as far as other processes can observe. proceed resumes it.
func (p *process) pause() {
	p.pauseState.set(true, false)
	p.forEachLink((*apiserver.Link).Hold)
}

func (p *process) resume() {
	p.pauseState.set(false, false)
	p.forEachLink((*apiserver.Link).Heal)
}

// kill ends the process at once. No other process sees what its goroutines still do.
func (p *process) kill() {
	p.pauseState.set(false, true)
	p.forEachLink((*apiserver.Link).Mute)
	p.stop() // before its watches break: it might or might not restart them, depending on goroutine scheduling
	p.forEachLink((*apiserver.Link).Sever)
}

func (p *process) forEachLink(do func(*apiserver.Link)) {
	for _, links := range []map[string]*apiserver.Link{p.cores, p.cells} {
		for _, l := range links {
			do(l)
		}
	}
}

// runManager starts the manager of a process. setup adds the controllers.
func (p *process) runManager(link *apiserver.Link, detector *clusters.RestoreDetector, setup func(context.Context, manager.Manager) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	options := p.simulator.managerOptions(p.name, detector)
	if p.simulator.scenario.Shared {
		members.Select(&options.Cache)
		if p.interest != nil {
			p.interest.Select(&options.Cache)
		}
	}
	inner, err := ctrl.NewManager(link.Config(), options)
	mgr := &runnableManager{Manager: inner}
	if err == nil {
		err = setup(ctx, mgr)
	}
	if err != nil {
		panic(fmt.Sprintf("simulation: set up %s: %v", p.name, err))
	}
	// No two processes start at one instant: they would race for the same random draw.
	time.Sleep(p.simulator.dice.Between(time.Microsecond, 10*time.Millisecond, p.name+" start"))
	go func() {
		defer close(p.ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			p.simulator.judge.fail("%s ended unexpectedly: %v", p.name, err)
		}
	}()
}

func (sim *simulator) managerOptions(process string, detector *clusters.RestoreDetector) manager.Options {
	skip := true
	return manager.Options{
		Scheme: sim.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return apiserver.Mapper(), nil },
		Cache:          sim.withSeededWatchTimeouts(process, clusters.CacheOptionsOf(detector)),
		Controller:     config.Controller{SkipNameValidation: &skip},
	}
}

func (sim *simulator) startWebhook(name string) *process {
	p := sim.newProcess(name)
	first, detectors := sim.cores[0].name, map[string]*clusters.RestoreDetector{}
	for _, c := range sim.cores {
		detectors[c.name] = &clusters.RestoreDetector{}
	}
	p.runManager(p.cores[first], detectors[first], func(_ context.Context, mgr manager.Manager) error {
		options := webhook.Options{
			Cores: map[string]cluster.Cluster{first: mgr}, RestoreDetectors: detectors, Cells: map[string]*rest.Config{}, Metrics: prometheus.NewRegistry(), Now: p.now,
			BeforeFlush: p.delayBatch,
		}
		for _, c := range sim.cores[1:] {
			other, err := cluster.New(p.cores[c.name].Config(), func(o *cluster.Options) {
				o.Scheme, o.MapperProvider, o.Logger = sim.scheme, sim.managerOptions(name, nil).MapperProvider, logr.Discard()
				o.Cache = clusters.CacheOptionsOf(detectors[c.name])
			})
			if err != nil {
				return err
			}
			options.Cores[c.name] = eventDiscardingCluster{other}
		}
		for cell, link := range p.cells {
			options.Cells[cell] = link.Config()
		}
		options.Peers = &webhook.Peers{Self: name, All: sim.webhookNames, Client: &http.Client{Transport: &replicaTransport{from: p}}}
		var err error
		p.handler, err = webhook.NewProtection(mgr, options)
		return err
	})
	return p
}

func (sim *simulator) startAggregator(name, core, cell string) *process {
	p, detector := sim.newProcess(name), &clusters.RestoreDetector{}
	if sim.scenario.Shared {
		p.interest = &clusters.CacheFilter{}
	}
	p.runManager(p.cores[core], detector, func(ctx context.Context, mgr manager.Manager) error {
		options := aggregator.Options{
			// One worker: two would send the same list at one instant and race for the same random draw.
			Workers: 1,
			Cell:    cell, CellConfig: p.cells[cell].Config(), Identity: name, LeaseNamespace: leaseNamespace,
			LeaseDuration: leaseDuration, Heartbeat: 10 * time.Second, Metrics: prometheus.NewRegistry(), Now: p.now, RestoreDetector: detector,
		}
		if sim.scenario.Shared {
			membership, err := p.joinRing(ctx, orderedEventManager{mgr}, cell)
			if err != nil {
				return err
			}
			options.Membership, options.Interest = membership, p.interest
		}
		return aggregator.SetupWithManager(ctx, orderedEventManager{mgr}, options)
	})
	return p
}

// startGenerator starts the generator, which runs only at the first core, and the keeper of a core.
func (sim *simulator) startGenerator(name, core string) *process {
	p := sim.newProcess(name)
	p.runManager(p.cores[core], nil, func(ctx context.Context, mgr manager.Manager) error {
		held, err := p.setUpBrake(ctx, mgr, core)
		if err != nil {
			return err
		}
		options := generator.Options{
			Brake: held, Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}), Registry: prometheus.NewRegistry(),
			Kinds: generator.AllKinds()[:1],
		}
		if sim.scenario.isKept() {
			losses := keeper.NewLosses()
			options.Losses = losses
			if err := keeper.Setup(ctx, delayedReadManager{orderedEventManager{mgr}}, prometheus.NewRegistry(), losses, nil, held); err != nil {
				return err
			}
		}
		if !sim.scenario.Generated || core != sim.cores[0].name {
			return nil
		}
		return generator.Setup(ctx, mgr, options)
	})
	return p
}

// review calls a webhook as an API server does. answered is false if no answer arrives before ctx ends.
func (p *process) review(ctx context.Context, cell string, r *removal, request *admissionv1.AdmissionRequest) (answer removals.Answer, answered bool) {
	if !p.pauseState.wait(ctx) {
		return removals.Answer{}, false
	}
	answers := make(chan removals.Answer, 1)
	go func() {
		// The server of the webhook ends its work a little before its client times out.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookTimeout*9/10)
		defer cancel()
		answer := p.handler.Review(ctx, cell, request)
		if answer.Allowed {
			p.simulator.judge.judgeAllowed(p, cell, r, answer)
		}
		if p.pauseState.wait(ctx) {
			answers <- answer
		}
	}()
	select {
	case answer := <-answers:
		return answer, true
	case <-ctx.Done():
		return removals.Answer{}, false
	}
}
