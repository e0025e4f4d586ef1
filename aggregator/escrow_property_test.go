package aggregator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// escrowReplica is a replica of the webhook that holds an escrow in a simulatedCell. Its watch may be as late as the lifetime of an escrow: it does not learn
// that the protector was restored, cleared or counted since its last write.
type escrowReplica struct {
	*simulatedCell
	number int
	stamp  int64
	// unused are reservations for removals to come, and admitted the removals that its next write names.
	unused   int
	admitted []quota.Removal
	// written is the state that its last write has stored, and began when that write began.
	written *v1alpha1.PodProtector
	began   time.Time
}

func (r *escrowReplica) holder() string { return fmt.Sprint("webhook-", r.number) }

// crash loses what the replica knows. The next one has another name.
func (r *escrowReplica) crash() {
	*r = escrowReplica{simulatedCell: r.simulatedCell, number: r.number + 1}
}

// write names what was admitted, gives the rest of the escrow back, and reserves for removals to come.
func (r *escrowReplica) write(wanted int) {
	p := r.stored.DeepCopy()
	quota.VoidCountsUntil(p, uint64(r.lostVersion))
	if quota.CellOf(p, simulatedCellName) == nil {
		return
	}
	r.stamp++
	quota.NameEscrowed(p, simulatedCellName, r.holder(), r.admitted, 0, r.stamp)
	r.unused, r.admitted = quota.GrantEscrow(p, simulatedCellName, wanted), nil
	quota.SetEscrow(&quota.CellOf(p, simulatedCellName).AdmissionHistory, r.holder(), r.unused, r.stamp)
	quota.Summarize(p)
	for i := range p.Status.Cells { // a webhook writes no counts
		p.Status.Cells[i].Aggregation = r.stored.Status.Cells[i].Aggregation
	}
	r.store(p)
	r.written, r.began = p, r.clock
}

// admit admits the removal of a pod by the escrow, if the replica has one.
func (r *escrowReplica) admit(p *corev1.Pod) {
	isCharged := podhealth.Of(p, 0, r.clock).Charged(r.stored.Spec.Criterion) && r.has(p) && isCovered(p)
	if !isCharged || r.unused == 0 || r.clock.Sub(r.began) > quota.EscrowLifetime || !quota.MayUseEscrow(r.written, simulatedCellName) {
		return
	}
	if !slices.ContainsFunc(r.admitted, func(other quota.Removal) bool { return other.PodUID == p.UID }) {
		r.unused--
		r.admitted = append(r.admitted, quota.Removal{
			Cell: simulatedCellName, PodUID: p.UID, PodName: p.Name, Operation: v1alpha1.OperationDelete, At: r.clock,
		})
	}
	r.inFlight = append(r.inFlight, inFlight{uid: p.UID, deadline: r.clock.Add(simulatedDeadline)})
}

// An escrow accounts for each removal that its holder has admitted until the write that names the pod, or until the counts show its end: through crashes of the
// holder, late watches, relists, several leaders, cleared entries and restores (rules E1 to E4).
func TestEscrowsAccountForAdmittedRemovals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulatedCell(rapid.IntRange(1, 4).Draw(t, "floor"), rapid.Int32Range(0, 3).Draw(t, "compactThreshold"))
		w.stored.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete}
		for range rapid.IntRange(4, 12).Draw(t, "pods") {
			w.create(true)
		}
		w.lead()
		w.mustBeginAggregation(t, w.newest())
		w.finishAggregation(0)
		replica := &escrowReplica{simulatedCell: w}
		actions := w.actions()
		actions["create"] = func(*rapid.T) { w.create(true) }
		actions["ask"] = func(t *rapid.T) { w.review(drawPod(t, w.pods, "pod"), v1alpha1.OperationDelete) }
		actions["a rare fault"] = func(t *rapid.T) {
			switch rapid.IntRange(0, 11).Draw(t, "which") {
			case 0:
				w.clearEntry()
			case 1:
				w.restore(rapid.IntRange(0, len(w.history)-1).Draw(t, "as it was"))
			case 2:
				w.restoreCore(rapid.IntRange(0, len(w.history)-1).Draw(t, "to"))
			case 3, 4:
				w.lead()
			}
		}
		actions["pass time"] = func(t *rapid.T) {
			all := []time.Duration{time.Second, simulatedDeadline - quota.EscrowLifetime/2, simulatedDeadline, simulatedInFlight}
			w.passTime(rapid.SampledFrom(all).Draw(t, "time"))
		}
		actions["a storm"] = func(t *rapid.T) {
			replica.write(rapid.IntRange(0, 6).Draw(t, "wanted"))
			if rapid.Bool().Draw(t, "is counted") {
				w.mustBeginAggregation(t, w.newest())
				w.finishAggregation(len(w.pending) - 1)
			}
			for range rapid.IntRange(0, 3).Draw(t, "removals") {
				w.passTime(time.Duration(rapid.IntRange(0, 999).Draw(t, "ms")) * time.Millisecond)
				replica.admit(drawPod(t, w.pods, "pod"))
			}
		}
		actions["the holder crashes"] = func(*rapid.T) { replica.crash() }
		t.Repeat(actions)
		replica.write(0)
		w.checkLiveness(t)
	})
}
