package webhook

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func away(func() error) error { return errors.New("no route to host") }

// Removals that were forced while the core was unreachable consume budget once it is reachable again.
func TestWhatIsForcedWhileTheCoreIsAwayIsCharged(t *testing.T) {
	d := newDesk(t, deskProtector("web", 3, 5))
	d.suffer(away)
	for _, name := range []string{"web-0", "web-1", "web-0"} {
		if answer := d.remove(t.Context(), forced(deskPod(name))); !answer.Allowed {
			t.Fatalf("%s is refused: %s", name, answer.Status.Message)
		}
	}
	if got := d.core.debts.number(); got != 2 {
		t.Errorf("%d removals are owed, want 2", got)
	}
	d.suffer(nil)
	if answer := d.remove(t.Context(), deskPod("web-2")); answer.Verdict != removal.VerdictReason(quota.RefusedNoBudget) {
		t.Errorf("the next removal: %s, want it refused: 2 of the 2 that may go went by force", answer.Verdict)
	}
	if got := quota.BudgetOf(d.stored(t, "web")).Reserved; got != 2 {
		t.Errorf("%d are reserved, want 2", got)
	}
	if got := d.core.debts.number(); got != 0 {
		t.Errorf("%d removals are owed still", got)
	}
}

func TestWhatIsOwedIsPaidWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, deskProtector("web", 3, 5), deskProtector("api", 3, 5))
		defer d.core.doubts.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { d.core.repay(ctx); close(done) }()
		d.suffer(away)
		d.remove(t.Context(), forced(deskPod("web-0")))
		<-time.After(10 * repayPause)
		if got := d.core.debts.number(); got != 2 {
			t.Errorf("%d removals are owed while the core is away, want one by each protector", got)
		}
		d.suffer(nil)
		<-time.After(2 * repayPause)
		for _, name := range []string{"web", "api"} {
			if got := quota.BudgetOf(d.stored(t, name)).Reserved; got != 1 {
				t.Errorf("%d are reserved with %s, want 1", got, name)
			}
		}
		cancel()
		<-done
	})
}

// For any sequence of forced removals, other removals and write errors: every removal is charged once the core answers.
func TestNothingForcedIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(t, deskProtector("web", int32(rapid.IntRange(1, 6).Draw(t, "floor")), 6))
		var gone []string
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			d.suffer(rapid.SampledFrom([]func(func() error) error{
				nil, away, func(write func() error) error { return errors.Join(write(), errors.New("the answer was lost")) },
			}).Draw(t, "fault"))
			name := rapid.SampledFrom([]string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5"}).Draw(t, "pod")
			pod := deskPod(name)
			if rapid.Bool().Draw(t, "forced") {
				pod = forced(pod)
			}
			if d.remove(context.Background(), pod).Allowed && !slices.Contains(gone, name) {
				gone = append(gone, name)
			}
		}
		d.background.Wait()
		d.suffer(nil)
		d.core.repayOne(context.Background(), types.NamespacedName{Namespace: "default", Name: "web"})
		held := 0
		for range quota.Reservations(&d.stored(t, "web").Status.Cells[0].AdmissionHistory) {
			held++
		}
		if held < len(gone) || d.core.debts.number() > 0 {
			t.Fatalf("%d reservations for %d pods that went, and %d are owed", held, len(gone), d.core.debts.number())
		}
	})
}

// The API server would also refuse every later write that contains an invalid charge.
func TestWhatTheCoreDoesNotTakeIsNotOwed(t *testing.T) {
	d := newDesk(t, deskProtector("web", 3, 5))
	d.suffer(func(func() error) error {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PodProtector").GroupKind(), "web", nil)
	})
	if answer := d.remove(t.Context(), forced(deskPod("web-0"))); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Status.Message)
	}
	if got := d.core.debts.number(); got != 0 {
		t.Errorf("%d removals are owed, want none", got)
	}
}
