package review

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func held(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	p.UID, p.Finalizers = "uid-of-protector", []string{v1alpha1.FinalizerHold}
	return p
}

// deleteProtector deletes a protector from the core despite its finalizers, without a watch event for the webhook.
func (d *memoryFixture) deleteProtector(t *testing.T, name string) *v1alpha1.PodProtector {
	t.Helper()
	last := d.stored(t, name)
	bare := last.DeepCopy()
	bare.Finalizers = nil
	if err := d.client.Update(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	if err := d.client.Delete(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	return last
}

func (d *memoryFixture) wantLost(t *testing.T) {
	t.Helper()
	answer := d.remove(t.Context(), memoryPod("web-0"))
	if answer.Allowed || answer.Verdict != "Vanished" || answer.Status.Code != 429 {
		t.Fatalf("answer %+v, want it refused with 429 since the protector vanished", answer)
	}
	for _, part := range []string{`PodProtector default/web in core cluster "core" no longer exists although it was not released`, "restored", "kubectl breakwater force pod/web-0 -n default"} {
		if !strings.Contains(answer.Status.Message, part) {
			t.Errorf("message %q, want it to say %q", answer.Status.Message, part)
		}
	}
}

func (d *memoryFixture) wantUnprotected(t *testing.T) {
	t.Helper()
	if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Verdict != removal.VerdictUnprotected {
		t.Errorf("answer %+v, want it allowed as unprotected", answer)
	}
}

func TestLostProtectorStaysInForce(t *testing.T) {
	d := newMemoryFixture(t, held(memoryProtector("web", 1, 5)))
	last := d.deleteProtector(t, "web")
	d.wantLost(t) // before the watch has shown it
	if n := d.core.States.LostCount(); n != 0 {
		t.Errorf("%d lost protectors before the watch event, want 0", n)
	}
	d.core.States.HandleDelete(last)
	d.wantLost(t)
	if n := d.core.States.LostCount(); n != 1 {
		t.Errorf("%d lost protectors, want 1", n)
	}
	unready := memoryPod("web-1")
	unready.Status.Conditions[0].Status = "False"
	if answer := d.remove(t.Context(), unready); answer.Verdict != removal.VerdictNotAvailable {
		t.Errorf("answer %+v to the removal of an unavailable pod, want it allowed", answer)
	}
	// A protector that exists again decides.
	recreated := held(memoryProtector("web", 1, 5))
	recreated.UID, recreated.ResourceVersion = "another", ""
	if err := d.client.Create(t.Context(), recreated); err != nil {
		t.Fatal(err)
	}
	d.core.States.SetCoverage(recreated)
	if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Verdict != removal.VerdictReserved || d.core.States.LostCount() != 0 {
		t.Errorf("answer %+v, %d lost protectors; want it allowed and none", answer, d.core.States.LostCount())
	}
}

func TestProtectorBeingRestoredAdmitsNothing(t *testing.T) {
	for claim, change := range map[string]func(*v1alpha1.PodProtector){
		"before it has its status": func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "a"} },
		"before it is counted":     func(p *v1alpha1.PodProtector) { quota.VoidCounts(&p.Status.Cells[0].Aggregation) },
		"before every cell is counted": func(p *v1alpha1.PodProtector) {
			p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: "another", Aggregation: v1alpha1.Aggregation{Void: true}})
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p := memoryProtector("web", 1, 5)
			change(p)
			if answer := newMemoryFixture(t, p).remove(t.Context(), memoryPod("web-0")); answer.Allowed || answer.Verdict != "Restored" {
				t.Errorf("answer %+v, want it refused", answer)
			}
			p.Spec.MinAvailable = v1alpha1.Pods(0)
			if answer := newMemoryFixture(t, p).remove(t.Context(), memoryPod("web-0")); !answer.Allowed {
				t.Errorf("answer %+v with a floor of 0, want it allowed", answer)
			}
		})
	}
}

func TestReleasedProtectorDeniesNothing(t *testing.T) {
	for claim, change := range map[string]func(*v1alpha1.PodProtector){
		"its deletion was requested":       func(p *v1alpha1.PodProtector) { now := metav1.Now(); p.DeletionTimestamp = &now },
		"it had no finalizer":              func(p *v1alpha1.PodProtector) { p.Finalizers = nil },
		"it had a floor of 0, and is lost": func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(0) },
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, held(memoryProtector("web", 1, 5)))
			last := d.deleteProtector(t, "web")
			change(last)
			d.core.States.Set(last)
			d.core.States.HandleDelete(last)
			d.wantUnprotected(t)
		})
	}
}

// The core may have been restored to a state before the deletion that the watch has shown.
func TestTerminatingProtectorIsLostUntilTheWatchShowsItsEnd(t *testing.T) {
	d := newMemoryFixture(t, held(memoryProtector("web", 1, 5)))
	last := d.deleteProtector(t, "web")
	now := metav1.Now()
	last.DeletionTimestamp = &now
	d.core.States.Set(last)
	d.wantLost(t)
	d.core.States.HandleDelete(last)
	d.wantUnprotected(t)
}

// After an interruption, a watch shows only that a protector no longer exists.
func TestInterruptedWatchChecksForRelease(t *testing.T) {
	for _, c := range []struct{ isTerminating, released bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		d := newMemoryFixture(t, held(memoryProtector("web", 1, 5)))
		last := d.deleteProtector(t, "web")
		if c.isTerminating { // perhaps only in the lost history of a core that was restored
			now := metav1.Now()
			last.DeletionTimestamp = &now
			d.core.States.Set(last)
		}
		if c.released {
			if err := clusters.RecordRelease(t.Context(), d.client, last, "keeper"); err != nil {
				t.Fatal(err)
			}
		}
		d.core.States.HandleDelete(toolscache.DeletedFinalStateUnknown{Key: "default/web", Obj: last})
		d.wantLost(t)
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			d.core.States.RecheckLost(ctx)
		}()
		d.core.States.LostQueue.ShutDownWithDrain() // waits until it has been checked
		cancel()
		<-asked
		if c.released {
			d.wantUnprotected(t)
		} else {
			d.wantLost(t)
		}
	}
}

func TestBreakGlassOverridesLostProtector(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("api", 1, 5), held(memoryProtector("web", 1, 5)), memoryProtector("zoo", 1, 5))
	d.core.States.HandleDelete(d.deleteProtector(t, "web"))
	answer := d.remove(t.Context(), forced(memoryPod("web-0")))
	if answer.Verdict != removal.VerdictForced || answer.Audit()[v1alpha1.AuditForcedOver] != "Vanished" {
		t.Errorf("audit %v, want the overridden verdict Vanished", answer.Audit())
	}
	for _, name := range []string{"api", "zoo"} {
		if reserved := quota.BudgetOf(d.stored(t, name)).Reserved; reserved != 1 {
			t.Errorf("%d reservations with %s, want 1", reserved, name)
		}
	}
	// The result is the same when the webhook notices the loss only at its write.
	d = newMemoryFixture(t, memoryProtector("api", 1, 5), held(memoryProtector("web", 1, 5)))
	d.setFault(func(write func() error) error {
		d.setFault(nil)
		d.deleteProtector(t, "web")
		return write()
	})
	answer = d.decided(t.Context(), removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-0", Pod: removal.NewPod(forced(memoryPod("web-0")))})
	if answer.Verdict != removal.VerdictForced || quota.BudgetOf(d.stored(t, "api")).Reserved != 1 {
		t.Errorf("audit %v, %d reservations with api; want 0", answer.Audit(), quota.BudgetOf(d.stored(t, "api")).Reserved)
	}
}

// restore makes the core appear to have been restored from a backup, after a version.
func (d *memoryFixture) restore() {
	d.restoreDetector.Observe(d.restoreDetector.Mark(), "1000")
	d.restoreDetector.Observe(d.restoreDetector.Mark(), "1000001000")
}

func began(version string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.TermVersion = version }
}

func TestCountsBeforeRestoreAdmitNothing(t *testing.T) {
	for claim, c := range map[string]struct {
		change  func(*v1alpha1.PodProtector)
		allowed bool
	}{
		"of a leadership that began before": {began("1000"), false},
		"of one that does not say":          {began(""), false},
		"of one that began since":           {began("1000001001"), true},
		"unless the floor is 0":             {func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(0) }, true},
	} {
		t.Run(claim, func(t *testing.T) {
			p := memoryProtector("web", 1, 5)
			c.change(p)
			d := newMemoryFixture(t, p)
			d.restore()
			answer := d.remove(t.Context(), memoryPod("web-0"))
			if answer.Allowed != c.allowed || !c.allowed && (answer.Verdict != "Restored" || answer.Status.Code != 429) {
				t.Errorf("answer %+v, want allowed %v", answer, c.allowed)
			}
			// The batch decides again, in case that the restore is detected after the webhook has looked at the budget.
			charge := removal.Charge{Core: "core", Key: types.NamespacedName{Namespace: "default", Name: "web"}, Protector: p}
			late := d.cores.Reserve(t.Context(), []removal.Charge{charge}, quota.Removal{Cell: memoryCell, PodUID: "uid-of-web-2", Operation: v1alpha1.OperationDelete})
			if late.Denial == nil != c.allowed {
				t.Errorf("Reserve() = %+v, want allowed %v", late, c.allowed)
			}
			dry := d.decided(t.Context(), removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-1", Pod: removal.NewPod(memoryPod("web-1")), DryRun: true})
			if dry.Allowed != c.allowed {
				t.Errorf("answer %+v to a dry run, want allowed %v", dry, c.allowed)
			}
		})
	}
}

func TestDecisionBeforeRestoreIsNotAdmitted(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 1, 5))
	d.setFault(func(write func() error) error {
		err := write() // to a core that has been restored since
		d.restore()
		return err
	})
	if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Allowed || answer.Verdict != removal.VerdictUnreachable ||
		!strings.Contains(answer.Status.Message, "restored from a backup") {
		t.Errorf("answer %+v, want it refused", answer)
	}
}
