package simulation

import "fmt"

// stepTable has for each kind of step the function that executes it. n is the position of the step in the scenario.
type stepTable map[StepKind]func(n int, s Step)

func (t stepTable) addNumbered(do func(n int, s Step), kinds ...StepKind) {
	for _, kind := range kinds {
		t[kind] = do
	}
}

func (t stepTable) add(do func(Step), kinds ...StepKind) {
	t.addNumbered(func(_ int, s Step) { do(s) }, kinds...)
}

// addFault adds steps that the judge records as faults before they happen.
func (t stepTable) addFault(j *judge, do func(Step), kinds ...StepKind) {
	t.add(func(s Step) {
		j.recordFault(s)
		do(s)
	}, kinds...)
}

func (sim *simulator) addSteps() {
	steps := sim.steps
	steps.addNumbered(sim.clients.removeOne, Delete, Evict, DryRun, AskRelabel, UpdateImage, ResizePod)
	steps.addNumbered(sim.clients.renewForever, Renew)
	steps.addNumbered(sim.clients.forceRemoval, Force)
	steps.addNumbered(sim.clients.removeAll, DeleteCollection)
	sim.workloads.addSteps(steps)
	steps.add(sim.protectors.changeProtector, SetFloor, SetSelector)
	steps.add(sim.protectors.changeCoverage, Widen)
	steps.add(sim.protectors.applyProtectorStep, LoseOne, DeleteProtector, CreateProtector)
	sim.sources.addSteps(steps)
	steps.addNumbered(sim.cellObjects.changeCell, DeleteCell, CreateCell)
	steps.add(sim.workloads.removeLabel, RemoveLabel)
	steps.add(sim.workloads.recreateNamespace, RecreateNamespace)
	(&shareFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
	(&processFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
	(&clusterFaults{env: sim.env, processes: sim.processes}).addSteps(steps)
}

// executeStep executes a step.
func (sim *simulator) executeStep(n int, s Step) {
	sim.env.trace.add("step %d: %s", n, s.What)
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
