package play

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/dice"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
)

// environment is what all parts of a simulation share: the scenario, its clusters, the judge, and the tasks that run.
type environment struct {
	scenario       scenario.Scenario
	dice           *dice.Dice
	scheme         *runtime.Scheme
	storm          scenario.Storm
	judge          *judge.Judge
	trace          *trace.Trace
	cores, workers []*clusterState
	// serial is the last number of an object or a request.
	serial atomic.Int64
	// tasks counts the tasks that have not ended.
	tasks sync.WaitGroup
}

func newEnvironment(s scenario.Scenario, scheme *runtime.Scheme, events *trace.Trace) *environment {
	env := &environment{scenario: s, dice: dice.New(s.Seed), scheme: scheme, storm: s.Storm, trace: events, judge: judge.New(s, events)}
	// Steps set clocks forward and back by whole seconds, and a Ready condition has a resolution of whole seconds too.
	env.judge.SetClockTolerance(4 * time.Second)
	return env
}

// nextSerial returns a number that no object and no request has.
func (env *environment) nextSerial() int { return int(env.serial.Add(1)) }

// runAfter calls do after a while. calmDown and stopProcesses wait for it.
func (env *environment) runAfter(after time.Duration, do func()) {
	env.tasks.Go(func() {
		time.Sleep(after)
		do()
	})
}

func (env *environment) cell(s scenario.Step) *clusterState {
	return env.workers[s.Cell%len(env.workers)]
}

func (env *environment) core(s scenario.Step) *clusterState { return env.cores[s.Core%len(env.cores)] }

func (env *environment) clusterOf(s scenario.Step) *clusterState {
	all := append(slices.Clone(env.cores), env.workers...)
	return all[s.Cell%len(all)]
}

// waitUntil polls until condition returns "".
func waitUntil(timeout time.Duration, condition func() string) error {
	deadline := time.Now().Add(timeout)
	problem := condition()
	for ; problem != ""; problem = condition() {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %s", timeout, problem)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
