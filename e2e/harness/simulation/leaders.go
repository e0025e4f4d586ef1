package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/controllers/brake"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// grantsName is the name of the ConfigMap that has the grants.
const grantsName = brake.ConfigMapName

// delayedBrake is the brake of a process. It delays requests, so that no two ask at one instant and race for the same random draw. It reports to
// the judge what its process knew at that time.
type delayedBrake struct {
	*brake.Brake
	process *process
	core    string
}

func (p *process) setUpBrake(ctx context.Context, mgr manager.Manager, core string) (delayedBrake, error) {
	held, err := brake.Setup(ctx, mgr, brake.Options{
		Limits: p.simulator.scenario.limits(), Namespace: leaseNamespace, Registry: prometheus.NewRegistry(), Now: p.now,
	})
	return delayedBrake{held, p, core}, err
}

// Decide implements generator.Brake and keeper.Brake.
func (a delayedBrake) Decide(ctx context.Context, request core.Request) (core.Answer, error) {
	sim, what := a.process.simulator, fmt.Sprintf("%s asks for %s", a.process.name, request.Protector.UID)
	known := a.process.cores[a.core].Seen()
	time.Sleep(sim.dice.Between(time.Nanosecond, time.Millisecond, what))
	sim.judge.recordBrakeRequest(a.process, a.core, request.Protector, known)
	answer, err := a.Brake.Decide(ctx, request)
	if answer.Retry > 0 {
		answer.Retry += sim.dice.Between(time.Nanosecond, time.Millisecond, what+" again")
	}
	sim.trace.add("%s: the answer is %s after %d pending and %d left, %v", what, answer.Verdict, answer.Pending, answer.Left, err)
	return answer, err
}

// runSecondGenerator runs another generator of the first core for a while: a Lease was lost, and the leader that held it has not noticed yet.
func (sim *simulator) runSecondGenerator(n int, s Step) {
	if !sim.scenario.isKept() {
		return
	}
	sim.runAfter(0, func() {
		second := sim.startGenerator(fmt.Sprint("generator-0-second-", n), sim.cores[0].name)
		sim.mu.Lock()
		sim.secondGenerators = append(sim.secondGenerators, second)
		sim.mu.Unlock()
		time.Sleep(s.For)
		second.kill()
		sim.mu.Lock()
		defer sim.mu.Unlock()
		sim.secondGenerators = slices.DeleteFunc(sim.secondGenerators, func(p *process) bool { return p == second })
		sim.killed = append(sim.killed, second)
	})
}
