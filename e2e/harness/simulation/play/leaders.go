package play

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// delayedBrake is the brake of a process. It delays requests, so that no two ask at one instant and race for the same random draw. It reports to
// the judge what its process knew at that time.
type delayedBrake struct {
	*brake.Brake
	process *process
	core    string
}

func (p *process) setUpBrake(ctx context.Context, mgr manager.Manager, core string) (delayedBrake, error) {
	held, err := brake.Setup(ctx, mgr, brake.Options{
		Limits: p.env.scenario.Limits(), Namespace: scenario.LeaseNamespace, Registry: prometheus.NewRegistry(), Now: p.now,
	})
	return delayedBrake{held, p, core}, err
}

// Decide implements generator.Brake and keeper.Brake.
func (a delayedBrake) Decide(ctx context.Context, request core.Request) (core.Answer, error) {
	env, what := a.process.env, fmt.Sprintf("%s asks for %s", a.process.name, request.Protector.UID)
	known := a.process.cores[a.core].Seen()
	time.Sleep(env.dice.Between(time.Nanosecond, time.Millisecond, what))
	env.judge.RecordBrakeRequest(a.process.judged, a.core, request.Protector, known)
	answer, err := a.Brake.Decide(ctx, request)
	if answer.Retry > 0 {
		answer.Retry += env.dice.Between(time.Nanosecond, time.Millisecond, what+" again")
	}
	env.trace.Add("%s: the answer is %s after %d pending and %d left, %v", what, answer.Verdict, answer.Pending, answer.Left, err)
	return answer, err
}

// runSecondGenerator runs another generator of the first core for a while: a Lease was lost, and the leader that held it has not noticed yet.
func (f *processFaults) runSecondGenerator(n int, s scenario.Step) {
	if !f.env.scenario.IsKept() {
		return
	}
	f.env.runAfter(0, func() {
		second := f.processes.startGenerator(fmt.Sprint("generator-0-second-", n), f.env.cores[0].name)
		f.processes.mu.Lock()
		f.processes.secondGenerators = append(f.processes.secondGenerators, second)
		f.processes.mu.Unlock()
		time.Sleep(s.For)
		second.kill()
		f.processes.mu.Lock()
		defer f.processes.mu.Unlock()
		f.processes.secondGenerators = slices.DeleteFunc(f.processes.secondGenerators, func(p *process) bool { return p == second })
		f.processes.killed = append(f.processes.killed, second)
	})
}
