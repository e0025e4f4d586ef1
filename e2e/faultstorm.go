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

// FaultStorm is a storm on pods that no controller replaces, so that the judgement is exact, with a fault in it.
type FaultStorm struct {
	Pods int
	// Protect makes the protector of a floor; nil is the lab's own way.
	Protect func(l *Fixture, floor int)
	// FloorsByCore has one for each core, in whose protector it stands.
	FloorsByCore []int
	// BeforeStorm strikes before the storm, During while it rages, and After when it is over.
	BeforeStorm, DuringStorm, AfterStorm func(l *Fixture, gale *storm.Storm)
	// ExhaustsBudget tells that the storm uses the whole budget in spite of the fault.
	ExhaustsBudget bool
	// EndsWithDuring tells that the storm rages for as long as During takes, and ends with it.
	EndsWithDuring bool
}

const (
	stormSeed = 20261121
	// maxStormDuration bounds a storm on a slow machine. It ends by the number of its requests.
	maxStormDuration = time.Minute
)

// Run lets the tempest rage over a lab and fails its test unless every floor holds, and the strictest to the pod.
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
		if counts.Refused == 0 || verdict.Removals == 0 {
			l.Fatalf("got %+v and %d removals, want both denials and removals", counts, verdict.Removals)
		}
		if strictest := slices.Max(w.FloorsByCore); w.ExhaustsBudget && verdict.FinalAvailable != strictest {
			l.Errorf("%d pods remain, want the floor of %d: budget was lost", verdict.FinalAvailable, strictest)
		}
	}
}

// checkUsableBudget shows that what the storm left is usable: every pod above the strictest floor, which is that of
// the lab's core, can be removed, and none below. All cores then know of all removals.
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
	// The webhook that answers may hear of the last count a moment after us: until then it refuses with what it counted before.
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

// WaitForRequests waits until the storm has had so many answers more.
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
