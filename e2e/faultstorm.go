package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// FaultStorm is a storm with a fault in it. No controller replaces the removed pods, so that the record can be judged exactly.
type FaultStorm struct {
	Pods int
	// Protect creates a protector with the floor; nil means Fixture.CreateProtector.
	Protect func(l *Fixture, floor int)
	// FloorsByCore has the floor of the protector in each core.
	FloorsByCore []int
	// BeforeStorm runs before the storm starts, DuringStorm while it runs, and AfterStorm when it has ended.
	BeforeStorm, DuringStorm, AfterStorm func(l *Fixture, gale *storm.Storm)
	// ExhaustsBudget requires the storm to use the whole budget in spite of the fault.
	ExhaustsBudget bool
	// EndsWithDuring makes the storm run until DuringStorm returns.
	EndsWithDuring bool
}

const (
	stormSeed = 20261121
	// maxStormDuration bounds a storm on a slow machine. Otherwise a storm ends after a number of requests.
	maxStormDuration = time.Minute
)

// Run runs the storm in a fixture. It fails the test unless every floor holds and exactly the pods above the strictest floor can be removed
// afterwards.
func (w FaultStorm) Run(l *Fixture) {
	l.Helper()
	fixtures := l.ForEachCore()
	if len(fixtures) != len(w.FloorsByCore) {
		l.Fatalf("floors %v for %d cores", w.FloorsByCore, len(fixtures))
	}
	protect := w.Protect
	if protect == nil {
		protect = func(l *Fixture, floor int) { l.CreateProtector(floor) }
	}
	for i, fixture := range fixtures {
		protect(fixture, w.FloorsByCore[i])
	}
	l.CreateBarePods(l.Application(w.Pods))
	recorder, err := storm.StartRecorder(l.Context(), l.Application(w.Pods).Scope(l.Cells), storm.RecorderOptions{})
	l.Must(err)
	defer recorder.Stop()
	load := w.runStorm(l, recorder)

	ctx, cancel := context.WithTimeout(l.Context(), l.timeout())
	defer cancel()
	l.Must(recorder.Settle(ctx, 2*time.Second, l.timeout()))
	w.checkRecord(l, recorder.Record(), load.Counts())
	floor := slices.Max(w.FloorsByCore)
	fixtures[slices.Index(w.FloorsByCore, floor)].checkUsableBudget(floor)
}

func (w FaultStorm) runStorm(l *Fixture, recorder *storm.Recorder) *storm.Storm {
	l.Helper()
	each, limit := 25, maxStormDuration
	if w.EndsWithDuring {
		each, limit = math.MaxInt, time.Hour
	}
	load := storm.New(
		storm.Wave{Attack: storm.RandomDeletes{Recorder: recorder, Clients: 32, Each: each, Seed: stormSeed}, For: limit},
		storm.Wave{Attack: storm.EvictionWave{Recorder: recorder, Clients: 8, Seed: stormSeed}, For: limit},
		storm.Wave{Attack: storm.DeleteCollection{Scope: l.Application(w.Pods).Scope(l.Cells), Times: 10}, For: limit},
	)
	injectFault(l, w.BeforeStorm, load)
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- load.Run(ctx) }()
	injectFault(l, w.DuringStorm, load)
	if w.EndsWithDuring {
		cancel()
	}
	if err := <-result; !w.EndsWithDuring || !errors.Is(err, context.Canceled) {
		l.Must(err)
	}
	injectFault(l, w.AfterStorm, load)
	return load
}

func injectFault(l *Fixture, fault func(*Fixture, *storm.Storm), load *storm.Storm) {
	if fault != nil {
		fault(l, load)
	}
}

func (w FaultStorm) checkRecord(l *Fixture, record storm.Record, counts storm.Counts) {
	l.Helper()
	for i, floor := range w.FloorsByCore {
		verdict := storm.Judge(record, floor)
		l.Logf("floor %d in %s: %+v; removals %d, lowest available %d, available at the end %d",
			floor, l.Cores[i].Name, counts, verdict.Removals, verdict.MinAvailable, verdict.FinalAvailable)
		if verdict.OverAdmissions != 0 || verdict.MinAvailable < floor || l.CountExistingPods() < floor {
			l.Fatalf("%d over-admissions, lowest available %d, existing %d, want 0 over-admissions and a floor of %d",
				verdict.OverAdmissions, verdict.MinAvailable, l.CountExistingPods(), floor)
		}
		if counts.Denied == 0 || verdict.Removals == 0 {
			l.Fatalf("got %+v and %d removals, want both denials and removals", counts, verdict.Removals)
		}
		if strictest := slices.Max(w.FloorsByCore); w.ExhaustsBudget && verdict.FinalAvailable != strictest {
			l.Errorf("%d pods remain, want the floor of %d: budget was lost", verdict.FinalAvailable, strictest)
		}
	}
}

// checkUsableBudget checks that the budget after the storm is usable: every pod above the floor can be removed, and none below. The floor
// must be the strictest one, and l.Core the core that has it. Afterwards every core has counted all removals.
func (l *Fixture) checkUsableBudget(floor int) {
	l.Helper()
	replacements := l.Application(3)
	replacements.Instance = "again"
	ctx, cancel := context.WithTimeout(l.Context(), l.timeout())
	defer cancel()
	l.Must(replacements.DeployBare(ctx, l.Cells))
	l.waitForAvailableInEachCore(l.CountExistingPods())
	for surplus := l.CountExistingPods() - floor; surplus > 0; surplus-- {
		l.Eventually(func() string { return ErrorText(l.deleteAnyPod()) })
	}
	l.waitForAvailableInEachCore(floor)
	// The webhook replica that answers may receive the last count a moment later than this test. Until then it denies with the earlier
	// count.
	l.Eventually(func() string {
		err := l.deleteAnyPod()
		l.ExpectDenial(err, fmt.Sprintf("in core cluster %q", l.Core.Name))
		if budget := fmt.Sprintf("floor %d, available %d", floor, floor); !strings.Contains(err.Error(), budget) {
			return fmt.Sprintf("the denial does not contain %q: %v", budget, err)
		}
		return ""
	})
}

func (l *Fixture) deleteAnyPod() error {
	for _, cell := range l.Cells {
		if pods := l.ExistingPods(cell); len(pods) > 0 {
			return l.DeletePod(cell, pods[0].Name)
		}
	}
	return nil
}

// WaitForRequests waits until the storm has made the given number of further attempts.
func (l *Fixture) WaitForRequests(load *storm.Storm, more int) {
	l.Helper()
	want := load.Counts().Attempted + more
	l.Eventually(func() string {
		if got := load.Counts(); got.Attempted < want {
			return fmt.Sprintf("the storm made %+v, want %d attempts", got, want)
		}
		return ""
	})
}
