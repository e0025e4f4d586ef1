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

// asked is the brake of a process. It delays requests, so that no two ask at one instant and race for the same random draw. It reports to
// the judge what its process knew at that time.
type asked struct {
	*brake.Brake
	process *process
	core    string
}

func (p *process) setUpBrake(ctx context.Context, mgr manager.Manager, core string) (asked, error) {
	held, err := brake.Setup(ctx, mgr, brake.Options{
		Limits: p.world.scenario.limits(), Namespace: leaseNamespace, Registry: prometheus.NewRegistry(), Now: p.now,
	})
	return asked{held, p, core}, err
}

// Ask implements generator.Brake and keeper.Brake.
func (a asked) Ask(ctx context.Context, request core.Request) (core.Answer, error) {
	world, what := a.process.world, fmt.Sprintf("%s asks for %s", a.process.name, request.Protector.UID)
	known := a.process.cores[a.core].Seen()
	time.Sleep(world.dice.Between(time.Nanosecond, time.Millisecond, what))
	world.judge.asksBrake(a.process, a.core, request.Protector, known)
	answer, err := a.Brake.Ask(ctx, request)
	if answer.Retry > 0 {
		answer.Retry += world.dice.Between(time.Nanosecond, time.Millisecond, what+" again")
	}
	world.trace.add("%s: the answer is %s after %d pending and %d left, %v", what, answer.Verdict, answer.Pending, answer.Left, err)
	return answer, err
}

// runSecond runs another generator of the first core for a while: a Lease was lost, and the leader that held it has not noticed yet.
func (w *world) runSecond(n int, s Step) {
	if !w.scenario.isKept() {
		return
	}
	w.later(0, func() {
		second := w.startGenerator(fmt.Sprint("generator-0-second-", n), w.cores[0].name)
		w.mu.Lock()
		w.seconds = append(w.seconds, second)
		w.mu.Unlock()
		time.Sleep(s.For)
		second.kill()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seconds = slices.DeleteFunc(w.seconds, func(p *process) bool { return p == second })
		w.buried = append(w.buried, second)
	})
}
