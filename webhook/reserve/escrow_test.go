package reserve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// escrowTest is a webhook and a core in virtual time, with one protector whose aggregator knows escrows.
type escrowTest struct {
	*testing.T
	*memoryFixture
	writes atomic.Int64
	pods   atomic.Int64
}

var escrowTestProtector = types.NamespacedName{Namespace: "default", Name: "web"}

// runEscrowTest runs a test with a floor and a number of available pods. A write takes 10 ms.
func runEscrowTest(t *testing.T, floor, available int32, test func(e *escrowTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := memoryProtector("web", floor, available)
		p.Status.Cells[0].Aggregation.KnowsEscrows = true
		e := &escrowTest{T: t, memoryFixture: newMemoryFixture(t, p)}
		began := time.Now()
		e.core.reserver.escrows.sinceBoot = func() time.Duration { return time.Since(began) }
		e.setFault(e.write)
		test(e)
		e.Wait()
		e.core.States.LostQueue.ShutDown()
	})
}

func (e *escrowTest) write(write func() error) error {
	<-time.After(10 * time.Millisecond)
	e.writes.Add(1)
	return write()
}

// removePods requests the removal of more pods at once, and returns how many are admitted.
func (e *escrowTest) removePods(n int) (admitted int) {
	e.Helper()
	var requests sync.WaitGroup
	var total atomic.Int64
	for range n {
		name := fmt.Sprint("web-", e.pods.Add(1))
		requests.Go(func() {
			if e.remove(e.Context(), memoryPod(name)).Denial == nil {
				total.Add(1)
			}
		})
	}
	requests.Wait()
	return int(total.Load())
}

func (e *escrowTest) history() *v1alpha1.AdmissionHistory {
	return &e.stored(e, "web").Status.Cells[0].AdmissionHistory
}

// wantReserved checks how many pods have reservations, and how many are reserved in advance.
func (e *escrowTest) wantReserved(named, advance int) {
	e.Helper()
	h := e.history()
	if got := quota.Open(h) - quota.Escrowed(h); got != named || quota.Escrowed(h) != advance {
		e.Errorf("%d pods are reserved and %d in advance, want %d and %d", got, quota.Escrowed(h), named, advance)
	}
}

// The first removals of a storm wait for a write. What that write reserves in advance admits the next ones at once, and their pods are named soon.
func TestStormIsAdmittedByEscrow(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		if admitted := e.removePods(8); admitted != 8 {
			t.Fatalf("%d of 8 removals were admitted", admitted)
		}
		before, began := e.writes.Load(), time.Now()
		if admitted := e.removePods(8); admitted != 8 || time.Since(began) > 0 || e.writes.Load() != before {
			t.Errorf("%d of 8 more were admitted after %s and %d writes, want all at once", admitted, time.Since(began), e.writes.Load()-before)
		}
		counted := &dto.Metric{}
		if err := e.core.reserver.metrics.inAdvance.WithLabelValues(e.core.Name).Write(counted); err != nil || counted.GetCounter().GetValue() != 8 {
			t.Errorf("%v removals are counted as admitted in advance, error %v, want 8", counted, err)
		}
		<-time.After(quota.EscrowLifetime)
		if named := quota.Open(e.history()) - quota.Escrowed(e.history()); named != 16 {
			t.Errorf("%d pods are named after %s, want 16", named, quota.EscrowLifetime)
		}
		<-time.After(quota.EscrowLifetime)
		e.wantReserved(16, 0) // what was not used was given back
		if held := len(e.core.reserver.escrows.held); held > 0 {
			t.Errorf("the webhook remembers %d escrows, want none", held)
		}
	})
}

// A client that removes one pod after the other never meets an escrow, unless the core is far away.
func TestLoneRemovalsMakeNoEscrow(t *testing.T) {
	for _, c := range []struct {
		name    string
		latency time.Duration
		want    bool
	}{{"near", 0, false}, {"far", 50 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			runEscrowTest(t, 10, 200, func(e *escrowTest) {
				if c.latency > 0 {
					e.core.reserver.distance.record(c.latency, time.Now())
				}
				for range 3 {
					e.removePods(1)
				}
				if writes := e.writes.Load(); (writes < 3) != c.want {
					t.Errorf("3 removals, one after the other, needed %d writes", writes)
				}
			})
		})
	}
}

// Far from the core, a client that removes one pod each of many protectors makes few escrows: each costs a write more.
func TestWideRemovalsMakeFewEscrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const protectors = 20
		all := make([]*v1alpha1.PodProtector, protectors)
		for i := range all {
			all[i] = memoryProtector(fmt.Sprint("web-", i), 1, 9)
			all[i].Spec.Selector.MatchLabels["app"] = all[i].Name
			all[i].Status.Cells[0].Aggregation.CountedSpec, all[i].Status.Cells[0].Aggregation.KnowsEscrows = quota.CountedSpec(&all[i].Spec), true
		}
		d := newMemoryFixture(t, all...)
		defer d.core.States.LostQueue.ShutDown()
		d.core.reserver.escrows.sinceBoot = func() time.Duration { return time.Hour }
		d.core.reserver.distance.record(time.Second, time.Now())
		d.setFault(func(write func() error) error {
			<-time.After(50 * time.Millisecond)
			return write()
		})
		made := 0
		for i := range all {
			pod := memoryPod(fmt.Sprint("pod-", i))
			pod.Labels["app"] = all[i].Name
			if denial := d.remove(t.Context(), pod).Denial; denial != nil {
				t.Fatal(denial)
			}
			made += len(d.stored(t, all[i].Name).Status.Cells[0].AdmissionHistory.Escrows)
		}
		if made != maxFarEscrows {
			t.Errorf("%d escrows were made, want %d", made, maxFarEscrows)
		}
		d.Wait()
	})
}

// Each unit of the budget is usable, and none twice.
func TestBudgetIsExactWithEscrows(t *testing.T) {
	runEscrowTest(t, 10, 60, func(e *escrowTest) {
		admitted := 0
		for round := 0; admitted < 50 && round < 20; round++ {
			admitted += e.removePods(9)
		}
		if more := e.removePods(5); admitted != 50 || more != 0 {
			t.Errorf("%d removals were admitted, and %d more, want 50 and none", admitted, more)
		}
	})
}

// A removal is admitted by an escrow only if that is certainly still stored, and nothing else decides about it.
func TestWhatAnEscrowDoesNotAdmit(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		prepare func(e *escrowTest)
		change  func(r *quota.Removal)
	}{
		"a removal after its lifetime": {prepare: func(e *escrowTest) {
			s := e.core.reserver.escrows
			end := s.held[escrowKey{escrowTestProtector, memoryCell}].written + quota.EscrowLifetime + 1
			s.sinceBoot = func() time.Duration { return end }
		}},
		"a removal by force":                {change: func(r *quota.Removal) { r.Force = true }},
		"an update":                         {change: func(r *quota.Removal) { r.Generation = 2 }},
		"a relabel":                         {change: func(r *quota.Removal) { r.PodVersion = 7 }},
		"a removal that may be given back":  {change: func(r *quota.Removal) { r.RevocableUntil = now }},
		"a removal without a UID":           {change: func(r *quota.Removal) { r.PodUID = "" }},
		"a removal of another cell":         {change: func(r *quota.Removal) { r.Cell = "other" }},
		"a removal of a pod that is named":  {change: func(r *quota.Removal) { r.PodUID = memoryPod("web-1").UID }},
		"a removal while the process stops": {prepare: func(e *escrowTest) { e.core.reserver.escrows.closing = true }},
		"a removal after a restore of the core": {prepare: func(e *escrowTest) {
			e.changeStatus(func(cell *v1alpha1.PodProtectorCell) { cell.Aggregation.TermVersion = "999999999999" }) // its counts are not void
			e.core.States.restoreDetector.Observe(e.core.States.restoreDetector.Mark(), "900000000000")
			e.core.States.restoreDetector.Observe(e.core.States.restoreDetector.Mark(), "1")
		}},
		"a removal after the escrow was ended": {prepare: func(e *escrowTest) {
			e.changeStatus(func(cell *v1alpha1.PodProtectorCell) { cell.AdmissionHistory.Escrows = nil })
		}},
		"a removal after pods have died": {prepare: func(e *escrowTest) {
			e.changeStatus(func(cell *v1alpha1.PodProtectorCell) { cell.Aggregation.CountedReplicas = 11 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			runEscrowTest(t, 10, 100, func(e *escrowTest) {
				e.removePods(8)
				attempt := quota.Removal{Cell: memoryCell, PodUID: "other", PodName: "other", Operation: v1alpha1.OperationDelete, At: time.Now(), Token: NewToken()}
				op := func() historyOp { return historyOp{removal: attempt, claim: &quota.Claim{}} }
				if _, ok := e.core.reserver.admitByEscrow(e.Context(), escrowTestProtector, op()); !ok {
					t.Fatal("a usual removal was not admitted by the escrow")
				}
				attempt.PodUID = "another"
				if c.prepare != nil {
					c.prepare(e)
				}
				if c.change != nil {
					c.change(&attempt)
				}
				if result, ok := e.core.reserver.admitByEscrow(e.Context(), escrowTestProtector, op()); ok {
					t.Errorf("it was admitted: %+v", result)
				}
			})
		})
	}
}

// changeStatus changes the entry of the cell, as an aggregator does.
func (e *escrowTest) changeStatus(change func(cell *v1alpha1.PodProtectorCell)) {
	e.Helper()
	p := e.stored(e, "web")
	change(&p.Status.Cells[0])
	e.setFault(nil)
	if err := e.client.Status().Update(context.Background(), p); err != nil {
		e.Fatal(err)
	}
	e.setFault(e.write)
}

// Removals that an escrow has admitted are charged before a write decides on others, also if the escrow was ended meanwhile.
func TestAdmittedRemovalsAreNamedBeforeOthersAreDecided(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(3) // by the escrow
		e.changeStatus(func(cell *v1alpha1.PodProtectorCell) {
			cell.AdmissionHistory.Escrows, cell.Aggregation.CountedReplicas = nil, 8+3+10
		})
		if admitted := e.removePods(1); admitted != 0 {
			t.Error("a removal was admitted that leaves fewer pods than the floor with those that were admitted before")
		}
		e.wantReserved(11, 0)
	})
}

// What an escrow admits while a write names earlier ones is named by the next write.
func TestRemovalsDuringAWriteAreNamed(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(2)
		var flush sync.WaitGroup
		flush.Go(func() {
			if err := e.core.reserver.flushEscrow(escrowTestProtector); err != nil {
				t.Error(err)
			}
		})
		<-time.After(5 * time.Millisecond)
		if admitted := e.removePods(2); admitted != 2 {
			t.Errorf("%d removals were admitted during a write, want 2", admitted)
		}
		flush.Wait()
		<-time.After(2 * quota.EscrowLifetime)
		e.wantReserved(12, 0)
	})
}

// A repeated request costs nothing, before and after its pod is named (rule 2).
func TestRepeatedRemovalUsesNoEscrow(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		unused := func() int { return e.core.reserver.escrows.held[escrowKey{escrowTestProtector, memoryCell}].unused }
		before := unused()
		for range 3 {
			if denial := e.remove(e.Context(), memoryPod("again")).Denial; denial != nil {
				t.Fatal(denial)
			}
		}
		if left := unused(); left != before-1 {
			t.Errorf("three requests for a pod leave %d of %d in advance, want one used", left, before)
		}
	})
}

// What a write grants is not used if the write fails, and what it names stays until a write has named it.
func TestEscrowOfAFailedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		isStored bool
		err      error
	}{
		"a write that is not stored":   {false, errors.New("connection refused")},
		"a write whose answer is lost": {true, errors.New("connection reset")},
	} {
		t.Run(name, func(t *testing.T) {
			runEscrowTest(t, 10, 100, func(e *escrowTest) {
				e.removePods(8)
				e.removePods(8) // by the escrow
				e.setFault(func(write func() error) error {
					if c.isStored {
						if err := write(); err != nil {
							return err
						}
					}
					return c.err
				})
				held := func() (unused, admitted int) {
					s := e.core.reserver.escrows
					s.mu.Lock()
					defer s.mu.Unlock()
					one := s.held[escrowKey{escrowTestProtector, memoryCell}]
					return one.unused, len(one.admitted)
				}
				unused, admitted := held()
				if err := e.core.reserver.flushEscrow(escrowTestProtector); err == nil {
					t.Error("the write succeeded")
				}
				if nowUnused, nowAdmitted := held(); nowUnused > unused || nowAdmitted != admitted {
					t.Errorf("after the failure %d are unused and %d not named, want at most %d and %d", nowUnused, nowAdmitted, unused, admitted)
				}
				e.setFault(e.write)
				<-time.After(2 * quota.EscrowLifetime)
				e.wantReserved(16, 0)
			})
		})
	}
}

// A watch may show a write before its answer comes, far from the core by half a round trip. Its escrow admits from then on, and once.
func TestWatchShowsAWriteBeforeItsAnswer(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(8) // by the escrow
		e.setFault(func(write func() error) error {
			err := write()
			<-time.After(100 * time.Millisecond)
			return err
		})
		var flush sync.WaitGroup
		flush.Go(func() { _ = e.core.reserver.flushEscrow(escrowTestProtector) })
		<-time.After(50 * time.Millisecond)
		began := time.Now()
		if admitted := e.removePods(4); admitted != 4 || time.Since(began) > 0 {
			t.Errorf("%d of 4 removals were admitted after %s, want all at once", admitted, time.Since(began))
		}
		flush.Wait()
		held := e.core.reserver.escrows.held[escrowKey{escrowTestProtector, memoryCell}]
		if escrow := quota.Escrowed(e.history()); held.unused+len(held.admitted) > escrow {
			t.Errorf("%d are unused and %d not named, of %d that are stored", held.unused, len(held.admitted), escrow)
		}
		e.setFault(e.write)
		<-time.After(2 * quota.EscrowLifetime)
		e.wantReserved(20, 0)
	})
}

// A write whose answer was lost is not repeated once a state shows it: the aggregator may have settled meanwhile what it named.
func TestNamesOfALostAnswerAreNotWrittenAgain(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(8) // by the escrow
		e.setFault(func(write func() error) error {
			if err := write(); err != nil {
				return err
			}
			return errors.New("connection reset")
		})
		if err := e.core.reserver.flushEscrow(escrowTestProtector); err == nil {
			t.Fatal("the write succeeded")
		}
		e.changeStatus(func(cell *v1alpha1.PodProtectorCell) { // all pods are gone
			quota.Settle(&cell.AdmissionHistory, func(quota.Reservation) quota.Observation { return quota.Absent })
		})
		<-time.After(2 * quota.EscrowLifetime)
		e.wantReserved(0, 0)
	})
}

// A process that ends names what it has admitted and gives the rest back. If the core does not answer, it ends all the same.
func TestEscrowsEndWithTheProcess(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(5)
		e.Wait()
		e.wantReserved(13, 0)
	})
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.setFault(func(func() error) error { return errors.New("connection refused") })
		began := time.Now()
		e.Wait()
		if took := time.Since(began); took > quota.EscrowLifetime {
			t.Errorf("the process needed %s to end", took)
		}
	})
}

// The last units of a budget that another replica holds are usable: it is asked.
func TestReplicaAsksTheHolderOfTheLastUnits(t *testing.T) {
	runEscrowTest(t, 10, 30, func(e *escrowTest) {
		other := newMemoryFixture(t, e.stored(t, "web"))
		access := other.core.States.protectors
		other.client, access.Cache, access.Live, access.Writer = e.client, e.client, e.client, e.client
		defer other.core.States.LostQueue.ShutDown()
		connectReplicas(map[string]*memoryFixture{"first": e.memoryFixture, "second": other}, func(string) {})
		e.core.reserver.escrows.isOwner = func(types.NamespacedName) bool { return true } // it was until a moment ago
		e.core.reserver.enqueueAll(e.T, 8)
		held := quota.Escrowed(e.history())
		if held == 0 {
			t.Fatal("nothing is reserved in advance")
		}
		admitted := 0
		for i := range 20 {
			if other.remove(e.Context(), memoryPod(fmt.Sprint("other-", i))).Denial == nil {
				admitted++
			}
		}
		if admitted != 12 {
			t.Errorf("the other replica admitted %d, want the 12 that were left, of which the first one held %d", admitted, held)
		}
	})
}

// Only the replica to which the others forward a protector reserves in advance with it: the writes of two would conflict. The others forward to it while it
// has, also lone removals, and far from the core in any case.
func TestOneReplicaReservesInAdvance(t *testing.T) {
	for claim, isFar := range map[string]bool{"near the core": false, "far from the core": true} {
		t.Run(claim, func(t *testing.T) {
			runEscrowTest(t, 10, 100, func(e *escrowTest) {
				other := newMemoryFixture(e.T, e.stored(e, "web"))
				access := other.core.States.protectors
				other.client, access.Cache, access.Live, access.Writer = e.client, e.client, e.client, e.client
				defer other.core.States.LostQueue.ShutDown()
				owner, asking := e.memoryFixture, other
				connectReplicas(map[string]*memoryFixture{"first": e.memoryFixture, "second": other}, func(string) {})
				if e.core.reserver.forwarder.ownerOf(escrowTestProtector) != "" {
					owner, asking = asking, owner
				}
				other.core.reserver.escrows.sinceBoot = e.core.reserver.escrows.sinceBoot
				if isFar {
					for _, d := range []*memoryFixture{owner, asking} {
						d.core.reserver.distance.record(farForEscrow, time.Now())
					}
				} else {
					owner.core.reserver.enqueueAll(e.T, 8)
				}
				for i := range 3 {
					if denial := asking.remove(e.Context(), memoryPod(fmt.Sprint("lone-", i))).Denial; denial != nil {
						t.Error(denial)
					}
				}
				if own := len(asking.core.reserver.escrows.held); own > 0 {
					t.Errorf("the replica that asks has %d escrows, want none", own)
				}
				admitted := &dto.Metric{}
				if err := owner.core.reserver.metrics.inAdvance.WithLabelValues(e.core.Name).Write(admitted); err != nil {
					t.Fatal(err)
				}
				if want := map[bool]float64{false: 3, true: 2}[isFar]; admitted.GetCounter().GetValue() != want {
					t.Errorf("the owner admitted %v of 3 removals in advance, want %v", admitted.GetCounter().GetValue(), want)
				}
				<-time.After(2 * quota.EscrowLifetime)
			})
		})
	}
}

// connectReplicas lets replicas forward to each other. called is called with the name of a replica for each request to it.
func connectReplicas(replicas map[string]*memoryFixture, called func(replica string)) {
	handlers, names := map[string]http.Handler{}, slices.Sorted(maps.Keys(replicas))
	for name, d := range replicas {
		handlers[name] = d.PeerHandler(nil)
	}
	call := roundTripper(func(r *http.Request) (*http.Response, error) {
		called(r.URL.Host)
		recorder := httptest.NewRecorder()
		handlers[r.URL.Host].ServeHTTP(recorder, r)
		return recorder.Result(), nil
	})
	for name, d := range replicas {
		peers := Peers{Self: name, All: func() []string { return names }, Client: &http.Client{Transport: call}}
		d.core.forwardTo(newForwarder("core", peers, nil))
	}
}

// enqueueAll reserves some pods in one batch of this replica.
func (r *reserver) enqueueAll(t *testing.T, n int) {
	t.Helper()
	ops := make([]historyOp, n)
	for i := range ops {
		pod := memoryPod(fmt.Sprint("first-", i))
		ops[i] = historyOp{claim: &quota.Claim{}, removal: quota.Removal{
			Cell: memoryCell, PodUID: pod.UID, PodName: pod.Name, Operation: v1alpha1.OperationDelete, At: time.Now(), Token: NewToken(),
		}}
	}
	if _, err := r.batches.DoAll(t.Context(), escrowTestProtector, ops); err != nil {
		t.Fatal(err)
	}
}

// A removal that several protectors must admit never uses an escrow: one of them may deny it.
func TestSeveralProtectorsUseNoEscrow(t *testing.T) {
	charges := []removal.Charge{{Core: "core", Key: escrowTestProtector}, {Core: "core", Key: types.NamespacedName{Namespace: "default", Name: "other"}}}
	d := newMemoryFixture(t, memoryProtector("web", 1, 9))
	if d.MayEscrow(charges, quota.Removal{Cell: memoryCell, PodUID: "u"}) {
		t.Error("MayEscrow() = true")
	}
}
