package review

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

func failWrite(func() error) error { return errors.New("no route to host") }

// Removals that were forced while the core was unreachable consume budget once it is reachable again.
func TestBreakGlassDuringOutageIsChargedLater(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 3, 5))
	d.setFault(failWrite)
	for _, name := range []string{"web-0", "web-1", "web-0"} {
		if answer := d.remove(t.Context(), forced(memoryPod(name))); !answer.Allowed {
			t.Fatalf("%s is refused: %s", name, answer.Status.Message)
		}
	}
	if got := d.core.Pending.Count(); got != 2 {
		t.Errorf("%d pending charges, want 2", got)
	}
	d.setFault(nil)
	if answer := d.remove(t.Context(), memoryPod("web-2")); answer.Verdict != removal.VerdictReason(quota.DeniedNoBudget) {
		t.Errorf("verdict %s, want a refusal: break-glass removals consumed the whole budget of 2", answer.Verdict)
	}
	if got := quota.BudgetOf(d.stored(t, "web")).Reserved; got != 2 {
		t.Errorf("%d reservations, want 2", got)
	}
	if got := d.core.Pending.Count(); got != 0 {
		t.Errorf("%d pending charges, want 0", got)
	}
}

// writeInterval is the time between two attempts of package reserve to write pending charges.
const writeInterval = 250 * time.Millisecond

func TestPendingChargesAreWrittenWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryFixture(t, memoryProtector("web", 3, 5), memoryProtector("api", 3, 5))
		defer d.core.States.LostQueue.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { d.core.Pending.FlushUntilDone(ctx, d.core.FlushPending); close(done) }()
		d.setFault(failWrite)
		d.remove(t.Context(), forced(memoryPod("web-0")))
		<-time.After(10 * writeInterval)
		if got := d.core.Pending.Count(); got != 2 {
			t.Errorf("%d pending charges while the core is unreachable, want one for each protector", got)
		}
		d.setFault(nil)
		<-time.After(2 * writeInterval)
		for _, name := range []string{"web", "api"} {
			if got := quota.BudgetOf(d.stored(t, name)).Reserved; got != 1 {
				t.Errorf("%d reservations with %s, want 1", got, name)
			}
		}
		cancel()
		<-done
	})
}

// For any sequence of forced removals, other removals and write errors: every removal is charged once the core answers.
func TestAllBreakGlassRemovalsAreCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newMemoryFixture(t, memoryProtector("web", int32(rapid.IntRange(1, 6).Draw(t, "floor")), 6))
		var gone []string
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			d.setFault(rapid.SampledFrom([]func(func() error) error{
				nil, failWrite, func(write func() error) error { return errors.Join(write(), errors.New("the answer was lost")) },
			}).Draw(t, "fault"))
			name := rapid.SampledFrom([]string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5"}).Draw(t, "pod")
			pod := memoryPod(name)
			if rapid.Bool().Draw(t, "forced") {
				pod = forced(pod)
			}
			if d.remove(context.Background(), pod).Allowed && !slices.Contains(gone, name) {
				gone = append(gone, name)
			}
		}
		d.cores.Wait()
		d.setFault(nil)
		d.core.FlushPending(context.Background(), types.NamespacedName{Namespace: "default", Name: "web"})
		held := 0
		for range quota.Reservations(&d.stored(t, "web").Status.Cells[0].AdmissionHistory) {
			held++
		}
		if held < len(gone) || d.core.Pending.Count() > 0 {
			t.Fatalf("%d reservations for %d removed pods, and %d pending charges", held, len(gone), d.core.Pending.Count())
		}
	})
}

// A request that updates and relabels a pod is a relabel for a protector that loses the pod, and an update for any other. An update that is
// charged with the version of a relabel would be settled before its containers restart (rule 4).
func TestPendingChargeIsAdaptedToTheProtector(t *testing.T) {
	attempt := quota.Removal{
		Cell: memoryCell, PodUID: "uid-of-web-0", PodName: "web-0", Operation: v1alpha1.OperationUpdate, At: time.Now(), Token: "token", Force: true,
		Generation: 2, Containers: []v1alpha1.ContainerRestarts{{Name: "web", Restarts: 1}}, PodVersion: 7,
	}
	for _, operation := range []v1alpha1.Operation{v1alpha1.OperationUpdate, v1alpha1.OperationRelabel} {
		t.Run(string(operation), func(t *testing.T) {
			d := newMemoryFixture(t, memoryProtector("web", 3, 5))
			d.setFault(failWrite)
			charge := removal.Charge{
				Core: "core", Key: types.NamespacedName{Namespace: "default", Name: "web"}, Protector: d.stored(t, "web"), Operation: operation,
			}
			if decision := d.cores.Reserve(t.Context(), []removal.Charge{charge}, attempt); decision.Denial != nil {
				t.Fatalf("break-glass removal is denied: %+v", decision.Denial)
			}
			got := d.core.Pending.Of(charge.Key)
			want := reserve.PendingCharge{Removal: charge.AttemptFor(attempt), Of: v1alpha1.ShareOf{Name: "web"}}
			if diff := cmp.Diff([]reserve.PendingCharge{want}, got, cmpopts.IgnoreUnexported(reserve.PendingCharge{})); diff != "" {
				t.Errorf("pending charges (-want +got):\n%s", diff)
			}
		})
	}
}

// Otherwise the first count of the cell would give out the budget of the removal again.
func TestBreakGlassBeforeTheFirstCountIsChargedLater(t *testing.T) {
	web := memoryProtector("web", 3, 5)
	counted := web.Status.DeepCopy()
	web.Status.Cells = nil
	d := newMemoryFixture(t, web)
	for _, name := range []string{"web-0", "web-1"} {
		d.remove(t.Context(), forced(memoryPod(name)))
	}
	d.core.FlushPending(t.Context(), types.NamespacedName{Namespace: "default", Name: "web"})
	if got := d.core.Pending.Count(); got != 2 {
		t.Errorf("%d pending charges before the first count, want 2", got)
	}
	first := d.stored(t, "web")
	first.Status = *counted
	if err := d.client.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	d.core.States.SetCoverage(first)
	if answer := d.remove(t.Context(), memoryPod("web-2")); answer.Verdict != removal.VerdictReason(quota.DeniedNoBudget) {
		t.Errorf("verdict %s, want a refusal: break-glass removals consumed the whole budget of 2", answer.Verdict)
	}
	if got := d.core.Pending.Count(); got != 0 {
		t.Errorf("%d pending charges, want 0", got)
	}
}

// A cell without an aggregator would keep the charge for ever.
func TestChargeEndsWithoutAFirstCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := memoryProtector("web", 3, 5)
		web.Status.Cells = nil
		d := newMemoryFixture(t, web)
		defer d.core.States.LostQueue.ShutDown()
		d.remove(t.Context(), forced(memoryPod("web-0")))
		for _, want := range []int{1, 0} {
			<-time.After((*v1alpha1.CellSpec)(nil).AdmissionDeadlineOrDefault() - time.Second)
			d.core.FlushPending(t.Context(), types.NamespacedName{Namespace: "default", Name: "web"})
			if got := d.core.Pending.Count(); got != want {
				t.Errorf("%d pending charges, want %d", got, want)
			}
		}
	})
}

// The API server would also refuse every later write that contains an invalid charge.
func TestInvalidChargeIsNotQueued(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 3, 5))
	d.setFault(func(func() error) error {
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PodProtector").GroupKind(), "web", nil)
	})
	if answer := d.remove(t.Context(), forced(memoryPod("web-0"))); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Status.Message)
	}
	if got := d.core.Pending.Count(); got != 0 {
		t.Errorf("%d pending charges, want 0", got)
	}
}

// A charge that the API server rejects must not keep the protector from all other decisions, and is tried again later.
func TestRejectedChargeIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemoryFixture(t, memoryProtector("web", 3, 5))
		defer d.core.States.LostQueue.ShutDown()
		d.setFault(failWrite)
		for _, name := range []string{"web-0", "web-1"} {
			d.remove(t.Context(), forced(memoryPod(name)))
		}
		d.setFault(nil)
		d.reject("uid-of-web-0")
		reserved := func() int { return quota.BudgetOf(d.stored(t, "web")).Reserved }
		if answer := d.remove(t.Context(), memoryPod("web-2")); !answer.Allowed || reserved() != 2 {
			t.Errorf("web-2: %s with %d reservations, want it beside the other charge", answer.Verdict, reserved())
		}
		if answer := d.remove(t.Context(), memoryPod("web-3")); answer.Verdict != removal.VerdictReason(quota.DeniedNoBudget) {
			t.Errorf("web-3: %s, want a refusal", answer.Verdict)
		}
		d.reject("")
		for _, c := range []struct {
			wait          time.Duration
			held, pending int
		}{{time.Minute / 2, 2, 1}, {time.Minute, 3, 0}} {
			<-time.After(c.wait)
			d.core.FlushPending(t.Context(), types.NamespacedName{Namespace: "default", Name: "web"})
			if got := d.core.Pending.Count(); reserved() != c.held || got != c.pending {
				t.Errorf("after %s: %d reservations and %d pending charges, want %d and %d", c.wait, reserved(), got, c.held, c.pending)
			}
		}
	})
}
