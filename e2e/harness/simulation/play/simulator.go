package play

import (
	"fmt"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
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

func newSimulator(s scenario.Scenario, scheme *runtime.Scheme, events *trace.Trace) *simulator {
	events.Start()
	env := newEnvironment(s, scheme, events)
	sim := &simulator{
		env: env, processes: &processes{env: env}, clients: &clients{env: env, renewals: newRenewals()}, sources: &sources{env: env},
		cellObjects: &cellObjects{env: env}, steps: stepTable{},
	}
	sim.protectors = &protectorUsers{env}
	sim.workloads = &workloads{env: env, clients: sim.clients}
	for i := range s.Cores {
		core := sim.newCluster(fmt.Sprintf("core-%d", i), env.judge.RecordCoreEvent)
		if s.Shares && i > 0 { // the first core keeps the UIDs that it has alone
			core.store.UIDSuffix = "-" + core.name
		}
		env.cores = append(env.cores, core)
	}
	for i := range s.Workers {
		c := sim.newCluster(fmt.Sprintf("worker-%d", i), env.judge.RecordCellEvent)
		env.judge.AddCell(c.name)
		env.workers = append(env.workers, c)
	}
	sim.addChecks()
	sim.addSteps()
	return sim
}

// addChecks adds what checks the end of a run. All clusters must exist.
func (sim *simulator) addChecks() {
	env, judged := sim.env, func(all []*clusterState) (clusters []*judge.Cluster) {
		for _, c := range all {
			clusters = append(clusters, c.judged)
		}
		return clusters
	}
	cores, workers := judged(env.cores), judged(env.workers)
	sim.checks = &finalChecks{env: env, clients: sim.clients, sources: sim.sources, convergence: &judge.Convergence{
		Judge: env.judge, Scenario: env.scenario, Cores: cores, Workers: workers, Webhooks: sim.processes.watchedVersions,
		Generators: sim.processes.generatorNames, CountUnrenewed: sim.clients.renewals.countUnrenewed,
	}}
	sim.shareChecks = &shareChecks{env: env, clients: sim.clients, convergence: &judge.ShareConvergence{
		Judge: env.judge, Scenario: env.scenario, Cores: cores, Workers: workers,
	}}
}

func (sim *simulator) newCluster(name string, changed func(string, *apiserver.Event)) *clusterState {
	c := &clusterState{name: name, env: sim.env, processes: sim.processes, store: apiserver.NewStore()}
	c.judged = &judge.Cluster{Name: name, Store: c.store}
	c.store.Traffic = sim.env.trace.Add
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
		sim.env.cores[plan.Core%len(sim.env.cores)].create("podprotectors", plan.Object())
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

// stepTable has for each kind of step the function that executes it. n is the position of the step in the scenario.
type stepTable map[scenario.StepKind]func(n int, s scenario.Step)

func (t stepTable) addNumbered(do func(n int, s scenario.Step), kinds ...scenario.StepKind) {
	for _, kind := range kinds {
		t[kind] = do
	}
}

func (t stepTable) add(do func(scenario.Step), kinds ...scenario.StepKind) {
	t.addNumbered(func(_ int, s scenario.Step) { do(s) }, kinds...)
}

// addFault adds steps that the judge records as faults before they happen.
func (t stepTable) addFault(j *judge.Judge, do func(scenario.Step), kinds ...scenario.StepKind) {
	t.add(func(s scenario.Step) {
		j.RecordFault(s)
		do(s)
	}, kinds...)
}

func (sim *simulator) addSteps() {
	steps := sim.steps
	steps.addNumbered(sim.clients.removeOne, scenario.Delete, scenario.Evict, scenario.DryRun, scenario.AskRelabel, scenario.UpdateImage, scenario.ResizePod)
	steps.addNumbered(sim.clients.renewForever, scenario.Renew)
	steps.addNumbered(sim.clients.forceRemoval, scenario.Force)
	steps.addNumbered(sim.clients.removeAll, scenario.DeleteCollection)
	sim.workloads.addSteps(steps)
	steps.add(sim.protectors.changeProtector, scenario.SetFloor, scenario.SetSelector)
	steps.add(sim.protectors.changeCoverage, scenario.Widen)
	steps.add(sim.protectors.applyProtectorStep, scenario.LoseOne, scenario.DeleteProtector, scenario.CreateProtector)
	sim.sources.addSteps(steps)
	steps.addNumbered(sim.cellObjects.changeCell, scenario.DeleteCell, scenario.CreateCell)
	steps.add(sim.workloads.removeLabel, scenario.RemoveLabel)
	steps.add(sim.workloads.recreateNamespace, scenario.RecreateNamespace)
	(&shareFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
	(&processFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
	(&clusterFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
}

// executeStep executes a step.
func (sim *simulator) executeStep(n int, s scenario.Step) {
	sim.env.trace.Add("step %d: %s", n, s.What)
	do, ok := sim.steps[s.What]
	if !ok {
		panic(fmt.Sprintf("simulation: no such kind of step: %q", s.What))
	}
	do(n, s)
}

// pick selects an element by the index who, modulo the length. ok is false if there are no elements.
func pick[T any](all []T, who int) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[who%len(all)], true
}
