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

// Tempest is a storm on pods that no controller replaces, so that the judgement is exact, with a fault in it.
type Tempest struct {
	Pods int
	// Protect makes the protector of a floor; nil is the lab's own way.
	Protect func(l *Lab, floor int)
	// Floors has one for each core, in whose protector it stands.
	Floors []int
	// Before strikes before the storm, During while it rages, and After when it is over.
	Before, During, After func(l *Lab, gale *storm.Storm)
	// Exhausts tells that the storm uses the whole budget in spite of the fault.
	Exhausts bool
	// Lasts tells that the storm rages for as long as During takes, and ends with it.
	Lasts bool
}

const (
	stormSeed = 20261121
	// stormTime bounds a storm on a slow machine. It ends by the number of its requests.
	stormTime = time.Minute
)

// Rage lets the tempest rage over a lab and fails its test unless every floor holds, and the strictest to the pod.
func (w Tempest) Rage(l *Lab) {
	l.Helper()
	labs := l.InEachCore()
	if len(labs) != len(w.Floors) {
		l.Fatalf("floors %v for %d cores", w.Floors, len(labs))
	}
	protect := w.Protect
	if protect == nil {
		protect = func(l *Lab, floor int) { l.Protect(floor) }
	}
	for i, lab := range labs {
		protect(lab, w.Floors[i])
	}
	l.DeployBare(l.App(w.Pods))
	recorder, err := storm.StartRecorder(l.Context(), l.App(w.Pods).Scope(l.Cells), storm.RecorderOptions{})
	l.Must(err)
	defer recorder.Stop()
	gale := w.blow(l, recorder)

	ctx, cancel := context.WithTimeout(l.Context(), l.patience())
	defer cancel()
	l.Must(recorder.Settle(ctx, 2*time.Second, l.patience()))
	w.judge(l, recorder.Record(), gale.Counts())
	floor := slices.Max(w.Floors)
	labs[slices.Index(w.Floors, floor)].wantUsableBudget(floor)
}

func (w Tempest) blow(l *Lab, recorder *storm.Recorder) *storm.Storm {
	l.Helper()
	each, limit := 25, stormTime
	if w.Lasts {
		each, limit = math.MaxInt, time.Hour
	}
	gale := storm.New(
		storm.Wave{Attack: storm.RandomDeletes{Recorder: recorder, Clients: 32, Each: each, Seed: stormSeed}, For: limit},
		storm.Wave{Attack: storm.EvictionWave{Recorder: recorder, Clients: 8, Seed: stormSeed}, For: limit},
		storm.Wave{Attack: storm.DeleteCollection{Scope: l.App(w.Pods).Scope(l.Cells), Times: 10}, For: limit},
	)
	strike(l, w.Before, gale)
	ctx, end := context.WithCancel(l.Context())
	defer end()
	raging := make(chan error, 1)
	go func() { raging <- gale.Run(ctx) }()
	strike(l, w.During, gale)
	if w.Lasts {
		end()
	}
	if err := <-raging; !w.Lasts || !errors.Is(err, context.Canceled) {
		l.Must(err)
	}
	strike(l, w.After, gale)
	return gale
}

func strike(l *Lab, fault func(*Lab, *storm.Storm), gale *storm.Storm) {
	if fault != nil {
		fault(l, gale)
	}
}

func (w Tempest) judge(l *Lab, record storm.Record, counts storm.Counts) {
	l.Helper()
	for i, floor := range w.Floors {
		verdict := storm.Judge(record, floor)
		l.Logf("floor %d in %s: %+v; removals %d, fewest %d, at last %d",
			floor, l.Cores[i].Name, counts, verdict.Removals, verdict.MinAvailable, verdict.FinalAvailable)
		if verdict.OverAdmissions != 0 || verdict.MinAvailable < floor || l.Living() < floor {
			l.Fatalf("%d over-admissions: %d were available at least, %d live, the floor is %d",
				verdict.OverAdmissions, verdict.MinAvailable, l.Living(), floor)
		}
		if counts.Refused == 0 || verdict.Removals == 0 {
			l.Fatalf("the storm proved nothing: %+v, %d removals", counts, verdict.Removals)
		}
		if strictest := slices.Max(w.Floors); w.Exhausts && verdict.FinalAvailable != strictest {
			l.Errorf("%d pods are left, want the floor of %d: budget was lost", verdict.FinalAvailable, strictest)
		}
	}
}

// wantUsableBudget shows that what the storm left is usable: every pod above the strictest floor, which is that of
// the lab's core, can be removed, and none below. All cores then know of all removals.
func (l *Lab) wantUsableBudget(floor int) {
	l.Helper()
	again := l.App(3)
	again.Instance = "again"
	ctx, cancel := context.WithTimeout(l.Context(), l.patience())
	defer cancel()
	l.Must(again.DeployBare(ctx, l.Cells))
	l.awaitInEachCore(l.Living())
	for surplus := l.Living() - floor; surplus > 0; surplus-- {
		l.Eventually(func() string { return Word(l.removeAny()) })
	}
	l.awaitInEachCore(floor)
	// The webhook that answers may hear of the last count a moment after us: until then it refuses with what it counted before.
	l.Eventually(func() string {
		err := l.removeAny()
		l.WantRefusal(err, fmt.Sprintf("in core cluster %q", l.Core.Name))
		if words := fmt.Sprintf("floor %d, available %d", floor, floor); !strings.Contains(err.Error(), words) {
			return fmt.Sprintf("the refusal does not say %q: %v", words, err)
		}
		return ""
	})
}

func (l *Lab) removeAny() error {
	for _, cell := range l.Cells {
		if pods := l.Pods(cell); len(pods) > 0 {
			return l.Remove(cell, pods[0].Name)
		}
	}
	return nil
}

// AwaitRequests waits until the storm has had so many answers more.
func (l *Lab) AwaitRequests(gale *storm.Storm, more int) {
	l.Helper()
	want := gale.Counts().Attempted + more
	l.Eventually(func() string {
		if got := gale.Counts(); got.Attempted < want {
			return fmt.Sprintf("the storm has %+v, want %d attempts", got, want)
		}
		return ""
	})
}
