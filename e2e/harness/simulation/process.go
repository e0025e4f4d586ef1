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
	name  string
	world *world
	// cores and cells are its connections by cluster.
	cores, cells map[string]*apiserver.Link
	// skew is how far its wall clock is ahead of the true time.
	skew atomic.Int64
	// began is its start time.
	began time.Time
	// leaves reports whether the process was asked to stop and is to be replaced.
	leaves atomic.Bool
	// reviews answers reviews, if the process is a webhook.
	reviews *webhook.Protection
	paused  *pause
	// interest selects the protectors that a shard keeps in its cache.
	interest *clusters.Interest

	stop  context.CancelFunc
	ended chan struct{}
}

// pause delays the callers of a process that is stopped.
type pause struct {
	mu   sync.Mutex
	over chan struct{} // nil while the process runs
	dead bool
}

func (p *pause) set(paused, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		close(p.over)
		p.over = nil
	}
	p.dead = p.dead || dead
	if paused && !p.dead {
		p.over = make(chan struct{})
	}
}

func (p *pause) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// wait waits until the process runs, and reports whether it does: not if the process is dead or ctx ends first.
func (p *pause) wait(ctx context.Context) bool {
	for {
		p.mu.Lock()
		over, dead := p.over, p.dead
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

func (w *world) newProcess(name string) *process {
	p := &process{
		name: name, world: w, cores: map[string]*apiserver.Link{}, cells: map[string]*apiserver.Link{}, paused: &pause{},
		ended: make(chan struct{}), began: time.Now(),
	}
	for _, c := range w.cores {
		p.cores[c.name] = c.store.NewLink(name+"@"+c.name, w.dice)
	}
	for _, c := range w.workers {
		p.cells[c.name] = c.store.NewLink(name+"@"+c.name, w.dice)
	}
	p.eachLink(func(l *apiserver.Link) { l.SetWeather(w.storm.Weather) })
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	w.judge.beginOf[name] = p.began
	return p
}

// knowledge returns for each core the version up to which the process has received the protectors.
func (p *process) knowledge() map[string]uint64 {
	known := map[string]uint64{}
	for core, link := range p.cores {
		known[core] = link.Seen()
	}
	return known
}

// board delays a batch, so that all requests for a protector at one instant join it. The delay differs by protector: one batch may
// complete at once, and its callers then continue with another protector.
func (p *process) board(protector types.NamespacedName) {
	time.Sleep(p.world.dice.Between(time.Nanosecond, time.Microsecond, p.name+" boarding "+protector.Name))
}

func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// hold stops the process like SIGSTOP, as far as other processes can observe. proceed resumes it.
func (p *process) hold() {
	p.paused.set(true, false)
	p.eachLink((*apiserver.Link).Hold)
}

func (p *process) proceed() {
	p.paused.set(false, false)
	p.eachLink((*apiserver.Link).Heal)
}

// kill ends the process at once. No other process sees what its goroutines still do.
func (p *process) kill() {
	p.paused.set(false, true)
	p.eachLink((*apiserver.Link).Mute)
	p.stop() // before its watches break: it might or might not restart them, depending on goroutine scheduling
	p.eachLink((*apiserver.Link).Sever)
}

func (p *process) eachLink(do func(*apiserver.Link)) {
	for _, links := range []map[string]*apiserver.Link{p.cores, p.cells} {
		for _, l := range links {
			do(l)
		}
	}
}

// run starts the manager of a process. setup adds the controllers.
func (p *process) run(link *apiserver.Link, past *clusters.Past, setup func(context.Context, manager.Manager) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	options := p.world.managerOptions(p.name, past)
	if p.world.scenario.Shared {
		members.Select(&options.Cache)
		if p.interest != nil {
			p.interest.Select(&options.Cache)
		}
	}
	inner, err := ctrl.NewManager(link.Config(), options)
	mgr := &host{Manager: inner}
	if err == nil {
		err = setup(ctx, mgr)
	}
	if err != nil {
		panic(fmt.Sprintf("simulation: set up %s: %v", p.name, err))
	}
	// No two processes start at one instant: they would race for the same random draw.
	time.Sleep(p.world.dice.Between(time.Microsecond, 10*time.Millisecond, p.name+" start"))
	go func() {
		defer close(p.ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			p.world.judge.fail("%s ended by itself: %v", p.name, err)
		}
	}()
}

func (w *world) managerOptions(process string, past *clusters.Past) manager.Options {
	skip := true
	return manager.Options{
		Scheme: w.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return apiserver.Mapper(), nil },
		Cache:          w.steadied(process, clusters.CacheOptionsOf(past)),
		Controller:     config.Controller{SkipNameValidation: &skip},
	}
}

func (w *world) startWebhook(name string) *process {
	p := w.newProcess(name)
	first, pasts := w.cores[0].name, map[string]*clusters.Past{}
	for _, c := range w.cores {
		pasts[c.name] = &clusters.Past{}
	}
	p.run(p.cores[first], pasts[first], func(_ context.Context, mgr manager.Manager) error {
		options := webhook.Options{
			Cores: map[string]cluster.Cluster{first: mgr}, Pasts: pasts, Cells: map[string]*rest.Config{}, Metrics: prometheus.NewRegistry(), Now: p.now,
			Boarding: p.board,
		}
		for _, c := range w.cores[1:] {
			other, err := cluster.New(p.cores[c.name].Config(), func(o *cluster.Options) {
				o.Scheme, o.MapperProvider, o.Logger = w.scheme, w.managerOptions(name, nil).MapperProvider, logr.Discard()
				o.Cache = clusters.CacheOptionsOf(pasts[c.name])
			})
			if err != nil {
				return err
			}
			options.Cores[c.name] = silentCluster{other}
		}
		for cell, link := range p.cells {
			options.Cells[cell] = link.Config()
		}
		options.Peers = &webhook.Peers{Self: name, All: w.webhookNames, Client: &http.Client{Transport: &wire{from: p}}}
		var err error
		p.reviews, err = webhook.NewProtection(mgr, options)
		return err
	})
	return p
}

func (w *world) startAggregator(name, core, cell string) *process {
	p, past := w.newProcess(name), &clusters.Past{}
	if w.scenario.Shared {
		p.interest = &clusters.Interest{}
	}
	p.run(p.cores[core], past, func(ctx context.Context, mgr manager.Manager) error {
		options := aggregator.Options{
			// One worker: two would send the same list at one instant and race for the same random draw.
			Workers: 1,
			Cell:    cell, CellConfig: p.cells[cell].Config(), Identity: name, LeaseNamespace: leaseNamespace,
			LeaseDuration: leaseDuration, Heartbeat: 10 * time.Second, Metrics: prometheus.NewRegistry(), Now: p.now, Past: past,
		}
		if w.scenario.Shared {
			membership, err := p.joinRing(ctx, inOrder{mgr}, cell)
			if err != nil {
				return err
			}
			options.Membership, options.Interest = membership, p.interest
		}
		return aggregator.SetupWithManager(ctx, inOrder{mgr}, options)
	})
	return p
}

// startGenerator starts the generator, which runs only at the first core, and the keeper of a core.
func (w *world) startGenerator(name, core string) *process {
	p := w.newProcess(name)
	p.run(p.cores[core], nil, func(ctx context.Context, mgr manager.Manager) error {
		held, err := p.setUpBrake(ctx, mgr, core)
		if err != nil {
			return err
		}
		options := generator.Options{
			Brake: held, Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}), Registry: prometheus.NewRegistry(),
			Kinds: generator.AllKinds()[:1],
		}
		if w.scenario.isKept() {
			losses := keeper.NewLosses()
			options.Losses = losses
			if err := keeper.Setup(ctx, apart{inOrder{mgr}}, prometheus.NewRegistry(), losses, nil, held); err != nil {
				return err
			}
		}
		if !w.scenario.Generated || core != w.cores[0].name {
			return nil
		}
		return generator.Setup(ctx, mgr, options)
	})
	return p
}

// review calls a webhook as an API server does. answered is false if no answer arrives before ctx ends.
func (p *process) review(ctx context.Context, cell string, r *removal, request *admissionv1.AdmissionRequest) (answer removals.Answer, answered bool) {
	if !p.paused.wait(ctx) {
		return removals.Answer{}, false
	}
	answers := make(chan removals.Answer, 1)
	go func() {
		// The server of the webhook ends its work a little before its client times out.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewPatience*9/10)
		defer cancel()
		answer := p.reviews.Review(ctx, cell, request)
		if answer.Allowed {
			p.world.judge.allowed(p, cell, r, answer)
		}
		if p.paused.wait(ctx) {
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
