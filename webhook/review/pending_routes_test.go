package review

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// sharedFixture is a core with the protector web, and the cluster of its only cell with the share of it. It moves the cell as an aggregator does.
type sharedFixture struct {
	testingT
	*memoryFixture
	worker *memoryFixture
}

const shareName = "web.share-1"

// newSharedFixture returns a cell with 6 pods and a floor of 3. The share is prepared: the protector decides.
func newSharedFixture(t testingT) *sharedFixture {
	of, share := memoryProtector("web", 3, 6), memoryProtector(shareName, 3, 6)
	of.UID = "1"
	share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: memoryCell, Closed: true}
	share.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&share.Spec)
	f := &sharedFixture{testingT: t, memoryFixture: newMemoryFixture(t, of), worker: newMemoryFixture(t, share)}
	f.worker.core.Name = "shares"
	f.connect(nil, f.worker.core)
	return f
}

// change writes an object, and lets the watch show it.
func (f *sharedFixture) change(in *memoryFixture, name string, change func(*v1alpha1.PodProtector)) {
	f.Helper()
	p := in.stored(f, name)
	change(p)
	status := p.Status.DeepCopy()
	if err := in.client.Update(context.Background(), p); err != nil {
		f.Fatal(err)
	}
	p.Status = *status
	fault := in.fault
	in.setFault(nil)
	err := in.client.Status().Update(context.Background(), p)
	if in.setFault(fault); err != nil {
		f.Fatal(err)
	}
	in.core.States.SetCoverage(in.stored(f, name))
}

// record records the share in the protector, and open opens it: together they let the cell enter.
func (f *sharedFixture) record() {
	f.change(f.memoryFixture, "web", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 3} })
}

func (f *sharedFixture) open() {
	from := f.stored(f, "web").Status.Cells[0].AdmissionHistory
	f.change(f.worker, shareName, func(p *v1alpha1.PodProtector) {
		quota.MergeReservations(&p.Status.Cells[0].AdmissionHistory, &from)
		p.Spec.ShareOf.Closed = false
	})
	f.change(f.memoryFixture, "web", func(p *v1alpha1.PodProtector) { p.Status.Cells[0].AdmissionHistory = v1alpha1.AdmissionHistory{} })
}

// closeShare closes the share, and leave makes the protector decide again: together they let the cell leave.
func (f *sharedFixture) closeShare() {
	f.change(f.worker, shareName, func(p *v1alpha1.PodProtector) { p.Spec.ShareOf.Closed = true })
}

func (f *sharedFixture) leave() {
	own := f.worker.stored(f, shareName).Status.Cells[0].AdmissionHistory
	f.change(f.memoryFixture, "web", func(p *v1alpha1.PodProtector) {
		p.Status.Cells[0].Share = nil
		quota.MergeReservations(&p.Status.Cells[0].AdmissionHistory, &own)
	})
}

// flush tries to write all pending charges once.
func (f *sharedFixture) flush() {
	for _, c := range []*reserve.Core{f.core, f.worker.core} {
		for _, key := range c.Pending.Protectors() {
			c.FlushPending(context.Background(), key)
		}
	}
}

func (f *sharedFixture) pending() int {
	return f.core.Pending.Count() + f.worker.core.Pending.Count()
}

// deciding returns the object that decides for the cell.
func (f *sharedFixture) deciding() *v1alpha1.PodProtector {
	if p := f.stored(f, "web"); !quota.HasShare(p, memoryCell) {
		return p
	}
	return f.worker.stored(f, shareName)
}

func reservationsOf(p *v1alpha1.PodProtector) (held int) {
	for range quota.Reservations(&p.Status.Cells[0].AdmissionHistory) {
		held++
	}
	return held
}

func (f *sharedFixture) force(pod string) {
	f.Helper()
	if answer := f.remove(context.Background(), forced(memoryPod(pod))); !answer.Allowed {
		f.Fatal("break-glass removal is denied: ", answer.Status.Message)
	}
}

// Otherwise the share would give out the budget of the removal again (rule S6).
func TestPendingChargeFollowsACellThatEnters(t *testing.T) {
	f := newSharedFixture(t)
	f.setFault(failWrite)
	f.force("web-0")
	f.setFault(nil)
	f.record()
	f.flush()
	if got := f.pending(); got != 1 {
		t.Errorf("%d pending charges before the share opens, want 1", got)
	}
	f.open()
	f.flush()
	f.flush()
	if got := reservationsOf(f.worker.stored(t, shareName)); got != 1 || f.pending() != 0 {
		t.Errorf("the share has %d reservations, and %d charges are pending; want 1 and 0", got, f.pending())
	}
}

// Otherwise the protector would give out the budget of the removal again (rule S6).
func TestPendingChargeFollowsACellThatLeaves(t *testing.T) {
	f := newSharedFixture(t)
	f.record()
	f.open()
	f.worker.setFault(failWrite)
	f.force("web-0")
	f.worker.setFault(nil)
	f.closeShare()
	f.flush()
	if got := f.pending(); got != 1 {
		t.Errorf("%d pending charges before the protector decides, want 1", got)
	}
	f.leave()
	if err := f.worker.client.Delete(t.Context(), f.worker.stored(t, shareName)); err != nil {
		t.Fatal(err)
	}
	f.worker.core.States.Drop(types.NamespacedName{Namespace: "default", Name: shareName})
	f.flush()
	f.flush()
	if got := reservationsOf(f.stored(t, "web")); got != 1 || f.pending() != 0 {
		t.Errorf("the protector has %d reservations, and %d charges are pending; want 1 and 0", got, f.pending())
	}
}

// A replica decides nothing without its pending charges, although the cell has just entered.
func TestPendingChargeReducesTheBudgetOfAShareThatOpens(t *testing.T) {
	f := newSharedFixture(t)
	f.setFault(failWrite)
	for _, pod := range []string{"web-0", "web-1", "web-2"} {
		f.force(pod)
	}
	f.record()
	f.open()
	if answer := f.remove(t.Context(), memoryPod("web-3")); answer.Verdict != removal.VerdictReason(quota.DeniedNoBudget) {
		t.Errorf("verdict %s, want a refusal: break-glass removals consumed the whole budget of 3", answer.Verdict)
	}
}

// Neither object admits a removal between the two writes by which the cell enters, but a break-glass removal is admitted all the same.
func TestBreakGlassRemovalWhileACellEntersIsCharged(t *testing.T) {
	f := newSharedFixture(t)
	f.record()
	if answer := f.decided(t.Context(), removal.Request{
		Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-1", Pod: removal.NewPod(forced(memoryPod("web-1"))), DryRun: true,
	}); !answer.Allowed || f.pending() != 0 {
		t.Errorf("answer %+v to a dry run, and %d pending charges; want it allowed, and none", answer, f.pending())
	}
	f.force("web-0")
	f.open()
	f.flush()
	f.flush()
	if got := reservationsOf(f.worker.stored(t, shareName)); got != 1 || f.pending() != 0 {
		t.Errorf("the share has %d reservations, and %d charges are pending; want 1 and 0", got, f.pending())
	}
}

// A webhook may see that the share was deleted before it sees that the protector decides again (simulation, 741189).
func TestBreakGlassRemovalWhileTheShareCannotBeReadIsCharged(t *testing.T) {
	f := newSharedFixture(t)
	f.record()
	f.open()
	f.worker.core.States.Drop(types.NamespacedName{Namespace: "default", Name: shareName})
	if answer := f.remove(t.Context(), memoryPod("web-1")); answer.Verdict != removal.VerdictUnknown {
		t.Fatalf("verdict %s, want %s", answer.Verdict, removal.VerdictUnknown)
	}
	f.force("web-0")
	f.flush()
	if got := f.pending(); got != 1 {
		t.Errorf("%d pending charges before the protector decides, want 1", got)
	}
	f.leave()
	f.flush()
	if got := reservationsOf(f.stored(t, "web")); got != 1 || f.pending() != 0 {
		t.Errorf("the protector has %d reservations, and %d charges are pending; want 1 and 0", got, f.pending())
	}
}

// A recreated protector has no entries until it gets its status back. Then the share, which was open all the time, decides again (rule S6).
func TestBreakGlassRemovalWhileAProtectorLacksItsStatusIsCharged(t *testing.T) {
	f := newSharedFixture(t)
	f.record()
	f.open()
	status := f.stored(t, "web").Status.DeepCopy()
	f.change(f.memoryFixture, "web", func(p *v1alpha1.PodProtector) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "1"}
		p.Status = v1alpha1.PodProtectorStatus{}
	})
	for _, pod := range []string{"web-0", "web-1", "web-2"} {
		f.force(pod)
	}
	f.flush()
	if got := f.pending(); got != 3 {
		t.Errorf("%d pending charges while the protector lacks its status, want 3", got)
	}
	f.change(f.memoryFixture, "web", func(p *v1alpha1.PodProtector) { p.Status.Cells = quota.RestoredCells(status) })
	if answer := f.remove(t.Context(), memoryPod("web-3")); answer.Verdict != removal.VerdictReason(quota.DeniedNoBudget) {
		t.Errorf("verdict %s, want a refusal: break-glass removals consumed the whole budget of 3", answer.Verdict)
	}
	if got := reservationsOf(f.worker.stored(t, shareName)); got != 3 || f.pending() != 0 {
		t.Errorf("the share has %d reservations, and %d charges are pending; want 3 and 0", got, f.pending())
	}
}

func TestPendingChargeOfAReleasedProtectorEnds(t *testing.T) {
	f := newSharedFixture(t)
	f.record()
	f.open()
	f.worker.setFault(failWrite)
	f.force("web-0")
	for in, name := range map[*memoryFixture]string{f.memoryFixture: "web", f.worker: shareName} {
		if err := in.client.Delete(t.Context(), in.stored(t, name)); err != nil {
			t.Fatal(err)
		}
		in.core.States.Drop(types.NamespacedName{Namespace: "default", Name: name})
	}
	f.core.Synced.Store(false)
	f.flush()
	if got := f.pending(); got != 1 {
		t.Errorf("%d pending charges while a core has not been read, want 1", got)
	}
	f.core.Synced.Store(true)
	f.flush()
	if got := f.pending(); got != 0 {
		t.Errorf("%d pending charges, want 0", got)
	}
}

// A lost protector is recreated with its reservations (rule 10).
func TestPendingChargeWaitsForALostProtector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := memoryProtector("web", 3, 6)
		web.Finalizers = []string{v1alpha1.FinalizerHold}
		d := newMemoryFixture(t, web)
		defer d.core.States.LostQueue.ShutDown()
		key := types.NamespacedName{Namespace: "default", Name: "web"}
		d.setFault(failWrite)
		d.remove(t.Context(), forced(memoryPod("web-0")))
		d.setFault(nil)
		lost := d.stored(t, "web")
		unheld := lost.DeepCopy()
		unheld.Finalizers = nil
		if err := d.client.Update(t.Context(), unheld); err != nil {
			t.Fatal(err)
		}
		if err := d.client.Delete(t.Context(), unheld); err != nil {
			t.Fatal(err)
		}
		d.core.States.HandleDelete(lost)
		d.core.FlushPending(t.Context(), key)
		if got := d.core.Pending.Count(); got != 1 {
			t.Errorf("%d pending charges while the protector is lost, want 1", got)
		}
		recreated := memoryProtector("web", 3, 6)
		if err := d.client.Create(t.Context(), recreated); err != nil {
			t.Fatal(err)
		}
		d.core.States.SetCoverage(recreated)
		d.core.FlushPending(t.Context(), key)
		if got := reservationsOf(d.stored(t, "web")); got != 1 || d.core.Pending.Count() != 0 {
			t.Errorf("%d reservations, and %d pending charges; want 1 and 0", got, d.core.Pending.Count())
		}
		<-time.After(time.Second)
	})
}

// For any sequence of forced removals, outages, and steps by which the cell enters and leaves: every removal is charged in the end.
func TestAllBreakGlassRemovalsAreChargedToTheDecidingObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newSharedFixture(t)
		gone := map[string]bool{}
		step := 0
		for range rapid.IntRange(1, 16).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"force", "force", "core", "worker", "move", "flush"}).Draw(t, "step") {
			case "core":
				f.setFault(rapid.SampledFrom([]func(func() error) error{nil, failWrite}).Draw(t, "fault"))
			case "worker":
				f.worker.setFault(rapid.SampledFrom([]func(func() error) error{nil, failWrite}).Draw(t, "fault"))
			case "move":
				[]func(){f.record, f.open, f.closeShare, f.leave}[step%4]()
				step++
			case "flush":
				f.flush()
			default:
				pod := rapid.SampledFrom([]string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5"}).Draw(t, "pod")
				if f.remove(context.Background(), forced(memoryPod(pod))).Allowed {
					gone[pod] = true
				}
			}
		}
		f.cores.Wait()
		f.setFault(nil)
		f.worker.setFault(nil)
		for ; step%2 > 0; step++ { // the cell does not stay between the two writes of a move
			[]func(){f.record, f.open, f.closeShare, f.leave}[step%4]()
		}
		f.flush()
		f.flush()
		if held := reservationsOf(f.deciding()); held < len(gone) || f.pending() > 0 {
			t.Fatalf("%d reservations for %d removed pods, and %d pending charges", held, len(gone), f.pending())
		}
	})
}
