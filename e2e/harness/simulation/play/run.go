// Package play runs scenarios: the components with their real code, the API servers, the clients and controllers of a cluster, and the faults.
package play

import (
	"math/rand"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Result is the outcome of a simulation.
type Result struct {
	Failures []string
	Counts   judge.Counts
}

// NewScheme returns the scheme with the kinds of the simulation. It is slow to build, so simulations share it.
func NewScheme() *runtime.Scheme {
	// The default handlers remember the time of the last error, and would wait until the virtual time of the next simulation reaches it.
	utilruntime.ErrorHandlers = nil
	return clusters.Scheme()
}

// convergenceTime is how long it may take from the end of all faults until every status is true: a lease, a list, the admission deadline and a
// few retries.
const convergenceTime = 3 * time.Minute

// maxReleaseTime is how long reservations may last in a calm. It is less than the admission deadline, because the webhook releases a removal
// that one protector denies at the other protectors.
const maxReleaseTime = 10 * time.Second

// maxBudgetDelay is how long it may take until budget that a status shows is usable: a webhook's watch lags.
const maxBudgetDelay = 5 * time.Second

// Run runs a scenario. Call it within a bubble of testing/synctest.
func Run(s scenario.Scenario, scheme *runtime.Scheme, events *trace.Trace) Result {
	rand.Seed(int64(s.Seed)) //nolint:staticcheck // the jitter of client-go is drawn from there
	sim := newSimulator(s, scheme, events)
	sim.populate()
	sim.processes.startProcesses()
	begun := sim.checks.convergence.UncountedProtector
	if s.Shares {
		begun = sim.shareChecks.convergence.ClosedShare
	}
	if err := waitUntil(time.Minute, begun); err != nil && s.Storm.Weather.Lose == 0 {
		sim.env.judge.Fail("not counted at the beginning: %v", err)
	}
	for _, c := range sim.env.workers {
		c.countedVersion = c.store.Version()
	}
	for _, c := range sim.env.cores {
		c.countedVersion = c.store.Version()
	}
	began := time.Now()
	sim.env.judge.RecordStormStart(began)
	for n, step := range s.Steps {
		time.Sleep(time.Until(began.Add(step.At)))
		sim.executeStep(n, step)
	}
	time.Sleep(time.Until(began.Add(scenario.StormTime)))
	sim.calmDown()
	if s.Shares {
		if err := sim.cellObjects.createCells(sim.clients.renewals); err != nil {
			sim.env.judge.Fail("cannot recreate a Cell %v", err)
		}
		sim.shareChecks.checkBudget()
	} else {
		sim.checkEnd()
	}
	sim.stopProcesses()
	failures, counts := sim.env.judge.Result()
	return Result{Failures: failures, Counts: counts}
}

// checkEnd checks what must hold after the storm.
func (sim *simulator) checkEnd() {
	if err := sim.cellObjects.createCells(sim.clients.renewals); err != nil {
		sim.env.judge.Fail("cannot recreate a Cell %v", err)
	}
	sim.checks.recreateForgottenProtectors()
	sim.checks.checkAbandoned()
	sim.checks.checkLiveness()
}

// calmDown ends the network faults and waits until all delayed tasks have ended.
func (sim *simulator) calmDown() {
	sim.env.trace.Add("the storm is over")
	sim.env.storm = scenario.Storm{}
	sim.env.tasks.Wait()
	// Requests that are sent at this instant still meet the faults.
	time.Sleep(time.Microsecond)
	for _, p := range sim.processes.allProcesses() {
		p.skew.Store(0)
		p.forEachLink(func(l *apiserver.Link) { l.SetWeather(apiserver.Weather{}) })
	}
}
