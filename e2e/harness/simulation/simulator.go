package simulation

import (
	"fmt"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// simulator runs a scenario. Each of its parts has one job in that.
type simulator struct {
	env         *environment
	processes   *processes
	clients     *clients
	workloads   *workloads
	sources     *sources
	protectors  *protectorUsers
	cellObjects *cellObjects
	checks      *finalChecks
	shareChecks *shareChecks
	collector   *collector
	steps       stepTable
}

func newSimulator(s Scenario, scheme *runtime.Scheme, trace *Trace) *simulator {
	trace.start()
	env := newEnvironment(s, scheme, trace)
	sim := &simulator{
		env: env, processes: &processes{env: env}, clients: &clients{env: env, renewals: newRenewals()}, sources: &sources{env: env},
		cellObjects: &cellObjects{env: env}, steps: stepTable{},
	}
	sim.protectors = &protectorUsers{env}
	sim.workloads = &workloads{env: env, clients: sim.clients}
	for i := range s.Cores {
		core := sim.newCluster(fmt.Sprintf("core-%d", i), env.judge.recordCoreEvent)
		if s.Shares && i > 0 { // the first core keeps the UIDs that it has alone
			core.store.UIDSuffix = "-" + core.name
		}
		env.cores = append(env.cores, core)
	}
	for i := range s.Workers {
		c := sim.newCluster(fmt.Sprintf("worker-%d", i), env.judge.recordCellEvent)
		env.judge.addCell(c.name)
		env.workers = append(env.workers, c)
	}
	sim.addChecks()
	sim.addSteps()
	return sim
}

// addChecks adds what checks the end of a run. All clusters must exist.
func (sim *simulator) addChecks() {
	env, judged := sim.env, func(all []*clusterState) (clusters []*clusterView) {
		for _, c := range all {
			clusters = append(clusters, c.judged)
		}
		return clusters
	}
	cores, workers := judged(env.cores), judged(env.workers)
	sim.checks = &finalChecks{env: env, clients: sim.clients, sources: sim.sources, convergence: &convergence{
		judge: env.judge, scenario: env.scenario, cores: cores, workers: workers, webhooks: sim.processes.watchedVersions,
		generators: sim.processes.generatorNames, countUnrenewed: sim.clients.renewals.countUnrenewed,
	}}
	sim.shareChecks = &shareChecks{env: env, clients: sim.clients, convergence: &shareConvergence{
		judge: env.judge, scenario: env.scenario, cores: cores, workers: workers,
	}}
}

func (sim *simulator) newCluster(name string, changed func(string, *apiserver.Event)) *clusterState {
	c := &clusterState{name: name, env: sim.env, processes: sim.processes, store: apiserver.NewStore()}
	c.judged = &clusterView{name: name, store: c.store}
	c.store.Traffic = sim.env.trace.add
	c.store.Committed = func(e *apiserver.Event) { changed(name, e) }
	return c
}

// populate creates the objects that exist at the beginning.
func (sim *simulator) populate() {
	for _, core := range sim.env.cores {
		for _, worker := range sim.env.workers {
			core.create("cells", sim.cellObjects.newCell(worker.name))
		}
	}
	if sim.env.scenario.HadShares {
		for _, worker := range sim.env.workers {
			worker.create("cells", sim.cellObjects.newCell(worker.name))
		}
	}
	if sim.env.scenario.Shared {
		sim.cellObjects.createRings()
	}
	for _, worker := range sim.env.workers {
		sim.workloads.createWorkloads(worker)
	}
	for i := range sim.env.scenario.Pods {
		sim.workloads.createPod(sim.env.workers[i%len(sim.env.workers)], true)
	}
	for _, plan := range sim.env.scenario.Protectors {
		sim.env.cores[plan.Core%len(sim.env.cores)].create("podprotectors", plan.object())
	}
	if sim.env.scenario.Shares || sim.env.scenario.Scope.Protected {
		sim.processes.createCoreUIDs()
	}
	if sim.env.scenario.Scope.Protected {
		sim.processes.createScope()
	}
	if sim.env.scenario.Generated {
		sim.collector = startCollector(sim.env)
	}
	sim.sources.populateSources()
}

// stopProcesses ends all processes and waits for them.
func (sim *simulator) stopProcesses() {
	all := sim.processes.allProcesses()
	for _, p := range all {
		p.stop()
	}
	for _, p := range all {
		<-p.ended
		p.kill()
	}
	for _, p := range sim.processes.killed {
		<-p.ended
	}
	sim.env.tasks.Wait()
	if sim.collector != nil {
		sim.collector.stop()
		<-sim.collector.ended
	}
	for _, c := range append(sim.env.cores, sim.env.workers...) {
		c.store.Wait()
	}
	// A webhook continues to release reservations for a few seconds.
	time.Sleep(10 * time.Second)
	synctest.Wait()
}
