package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/install"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

func (l *lab) forbidEvictions(cell storm.Cell) {
	l.Helper()
	none := intstr.FromInt32(0)
	_, err := cell.Client.PolicyV1().PodDisruptionBudgets(l.namespace).Create(l.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	l.must(err)
}

// tempest is a storm on pods that no controller replaces, so that the judgement is exact, with a fault in it.
type tempest struct {
	pods, floor int
	// before strikes before the storm, during while it rages, and after when it is over.
	before, during, after func(l *lab, gale *storm.Storm)
	// exhausts tells that the storm uses the whole budget in spite of the fault.
	exhausts bool
}

const (
	stormSeed = 20261121
	// stormTime bounds a storm on a slow machine. It ends by the number of its requests.
	stormTime = time.Minute
)

func (w tempest) rage(l *lab) {
	l.Helper()
	l.protect(w.floor)
	l.deployBare(l.app(w.pods))
	scope := l.app(w.pods).Scope(l.cells)
	recorder, err := storm.StartRecorder(l.ctx, scope, storm.RecorderOptions{})
	l.must(err)
	defer recorder.Stop()

	gale := storm.New(
		storm.Wave{Attack: storm.RandomDeletes{Recorder: recorder, Clients: 32, Each: 25, Seed: stormSeed}, For: stormTime},
		storm.Wave{Attack: storm.EvictionWave{Recorder: recorder, Clients: 8, Seed: stormSeed}, For: stormTime},
		storm.Wave{Attack: storm.DeleteCollection{Scope: scope, Times: 10}, For: stormTime},
	)
	strike(l, w.before, gale)
	raging := make(chan error, 1)
	go func() { raging <- gale.Run(l.ctx) }()
	strike(l, w.during, gale)
	l.must(<-raging)
	strike(l, w.after, gale)

	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	l.must(recorder.Settle(ctx, 2*time.Second, patience))
	verdict, counts := storm.Judge(recorder.Record(), w.floor), gale.Counts()
	l.Logf("%+v; removals %d, fewest %d, at last %d", counts, verdict.Removals, verdict.MinAvailable, verdict.FinalAvailable)
	if verdict.OverAdmissions != 0 || verdict.MinAvailable < w.floor || l.living() < w.floor {
		l.Fatalf("%d over-admissions: %d were available at least, %d live, the floor is %d",
			verdict.OverAdmissions, verdict.MinAvailable, l.living(), w.floor)
	}
	if counts.Refused == 0 || verdict.Removals == 0 {
		l.Fatalf("the storm proved nothing: %+v, %d removals", counts, verdict.Removals)
	}
	if w.exhausts && verdict.FinalAvailable != w.floor {
		l.Errorf("%d pods are left, want the floor of %d: budget was lost", verdict.FinalAvailable, w.floor)
	}
	l.wantUsableBudget(w.floor)
}

// wantUsableBudget shows that what the storm left is usable: every pod above the floor can be removed, none below.
func (l *lab) wantUsableBudget(floor int) {
	l.Helper()
	again := l.app(3)
	again.Instance = "again"
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	l.must(again.DeployBare(ctx, l.cells))
	l.eventually(func() string {
		if got := l.protector().Status.Summary; int(got.Available) != l.living() || got.Reserved != 0 {
			return "the status is not the truth yet"
		}
		return ""
	})
	for surplus := l.living() - floor; surplus > 0; surplus-- {
		l.eventually(func() string { return word(l.removeAny()) })
	}
	l.awaitSummary(allAvailable(floor))
	l.wantRefusal(l.removeAny(), "floor")
}

func (l *lab) removeAny() error {
	for _, cell := range l.cells {
		if pods := l.pods(cell); len(pods) > 0 {
			return l.remove(cell, pods[0].Name)
		}
	}
	return nil
}

func strike(l *lab, fault func(*lab, *storm.Storm), gale *storm.Storm) {
	if fault != nil {
		fault(l, gale)
	}
}

// awaitRequests waits until the storm has had so many answers more.
func awaitRequests(l *lab, gale *storm.Storm, more int) {
	l.Helper()
	want := gale.Counts().Attempted + more
	l.eventually(func() string {
		if got := gale.Counts(); got.Attempted < want {
			return fmt.Sprintf("the storm has %+v, want %d attempts", got, want)
		}
		return ""
	})
}

func TestAStormInGoodWeather(t *testing.T) {
	claim(t, "the floor holds to the pod, and the whole budget is used", func(l *lab) {
		tempest{pods: 120, floor: 70, exhausts: true}.rage(l)
	})
}

func TestAStormWithFrozenAggregators(t *testing.T) {
	claim(t, "no removal is counted away while the aggregators see nothing", func(l *lab) {
		each := func(do func(string) error) func(*lab, *storm.Storm) {
			return func(l *lab, _ *storm.Storm) {
				for _, cell := range l.cells {
					l.must(do(install.AggregatorName(l.shared.Federation().Cores()[0].Name(), cell.Name)))
				}
			}
		}
		// More than compactThreshold removals in each cell, so that reservations merge.
		tempest{
			pods: 300, floor: 60, exhausts: true, before: each(l.breakwater.Freeze), after: each(l.breakwater.Thaw),
		}.rage(l)
	})
}

func TestAStormInWhichAWebhookIsKilled(t *testing.T) {
	claim(t, "the other webhook goes on, and what the killed one knew stands in the core", func(l *lab) {
		killed := install.WebhookName(0)
		tempest{
			pods: 120, floor: 70,
			during: func(l *lab, gale *storm.Storm) {
				awaitRequests(l, gale, 20)
				l.must(l.breakwater.Kill(killed))
			},
			after: func(l *lab, _ *storm.Storm) { l.must(l.breakwater.Restart(l.ctx, killed)) },
		}.rage(l)
	})
}

func TestAStormInWhichTheCoreRestarts(t *testing.T) {
	claim(t, "removals are refused while the core is away, and go on when it is back", func(l *lab) {
		core, ok := l.shared.Federation().Cores()[0].(federation.Faults)
		if !ok {
			l.Skip("this backend cannot restart an apiserver")
		}
		tempest{
			pods: 120, floor: 70,
			during: func(l *lab, gale *storm.Storm) {
				awaitRequests(l, gale, 20)
				l.must(core.Kill(federation.APIServer))
				awaitRequests(l, gale, 100)
				l.must(core.Restart(l.ctx, federation.APIServer))
			},
		}.rage(l)
	})
}
