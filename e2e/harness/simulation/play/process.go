package play

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/webhook/review"
)

// process is one of our components. It runs its real code, and each of its connections can be held and severed.
type process struct {
	name string
	env  *environment
	// cores and cells are its connections by cluster.
	cores, cells map[string]*apiserver.Link
	// skew is how far its wall clock is ahead of the true time.
	skew atomic.Int64
	// startedAt is its start time.
	startedAt time.Time
	// judged is the process as the judge knows it.
	judged *judge.Replica
	// isStopping reports whether the process was asked to stop and is to be replaced.
	isStopping atomic.Bool
	// handler answers reviews, if the process is a webhook.
	handler    *review.Protection
	pauseState *pauseState
	// interest selects the protectors that a shard keeps in its cache.
	interest *clusters.CacheFilter
	// cell is the only cell that a webhook serves; empty if it serves all.
	cell string
	// startAgain starts another process in the place of this one, which has ended.
	startAgain func() *process

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

// seenVersions returns for each core the version up to which the process has received the protectors.
func (p *process) seenVersions() map[string]uint64 {
	known := map[string]uint64{}
	for core, link := range p.cores {
		known[core] = link.Seen()
	}
	return known
}

// skips returns for each core the changes of protectors that the process never received.
func (p *process) skips() map[string][]apiserver.Skip {
	missed := map[string][]apiserver.Skip{}
	for core, link := range p.cores {
		missed[core] = link.Skips()
	}
	return missed
}

// delayBatch delays a batch, so that all requests for a protector at one instant join it. The delay differs by protector: one batch may
// complete at once, and its callers then continue with another protector.
func (p *process) delayBatch(protector types.NamespacedName) {
	time.Sleep(p.env.dice.Between(time.Nanosecond, time.Microsecond, p.name+" boarding "+protector.Name))
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

// linksTo returns the connections to a cluster. With shares, a cell is also a core.
func (p *process) linksTo(cluster string) (links []*apiserver.Link) {
	for _, all := range []map[string]*apiserver.Link{p.cores, p.cells} {
		if link := all[cluster]; link != nil {
			links = append(links, link)
		}
	}
	return links
}

// runManager starts the manager of a process, with the options of its cache. setup adds the controllers.
func (p *process) runManager(link *apiserver.Link, caches cache.Options, setup func(context.Context, manager.Manager) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	options := p.managerOptions(caches)
	if p.env.scenario.Shared {
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
	time.Sleep(p.env.dice.Between(time.Microsecond, 10*time.Millisecond, p.name+" start"))
	go func() {
		defer close(p.ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			p.env.judge.Fail("%s ended unexpectedly: %v", p.name, err)
		}
	}()
}

func (p *process) managerOptions(caches cache.Options) manager.Options {
	skip := true
	return manager.Options{
		Scheme: p.env.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return apiserver.Mapper(), nil },
		Cache:          p.withSeededWatchTimeouts(caches),
		Controller:     config.Controller{SkipNameValidation: &skip},
	}
}

// review calls a webhook as an API server does. answered is false if no answer arrives before ctx ends.
func (p *process) review(ctx context.Context, cell string, r *judge.Removal, request *admissionv1.AdmissionRequest) (answer removals.Answer, answered bool) {
	if !p.pauseState.wait(ctx) {
		return removals.Answer{}, false
	}
	answers := make(chan removals.Answer, 1)
	go func() {
		// The server of the webhook ends its work a little before its client times out.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scenario.WebhookTimeout*9/10)
		defer cancel()
		answer := p.handler.Review(ctx, cell, request)
		if answer.Allowed && !p.pauseState.hasEnded() {
			p.env.judge.JudgeAllowed(p.judged, cell, r, answer)
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
