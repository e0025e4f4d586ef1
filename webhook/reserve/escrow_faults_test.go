package reserve

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Request 1 for a pod is admitted by an escrow, and its client leaves, so that it is denied and gives back. Request 2 for the same pod is admitted before
// that, by what request 1 took. It must keep its reservation (rule 2).
func TestRepeatKeepsTheReservationOfARequestThatGivesBack(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.removePods(2)
		var flush sync.WaitGroup
		flush.Go(func() { _ = e.core.reserver.flushEscrow(escrowTestProtector) })
		<-time.After(5 * time.Millisecond) // a write is under way
		left, leave := context.WithCancel(e.Context())
		leave()
		pod := memoryPod("again")
		if e.remove(left, pod).Denial == nil {
			t.Fatal("request 1 was admitted")
		}
		if denial := e.remove(e.Context(), pod).Denial; denial != nil {
			t.Fatal("request 2 was denied: ", denial)
		}
		flush.Wait()
		<-time.After(2 * quota.EscrowLifetime)
		if !quota.HasReservation(e.history(), pod.UID) {
			t.Error("request 2 was admitted, and its pod has no reservation")
		}
		e.wantReserved(11, 0)
	})
}

// laggingReader shows the state before the watch stopped.
type laggingReader struct {
	client.Reader
	mu    sync.Mutex
	shown *v1alpha1.PodProtector
}

func (r *laggingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown == nil {
		return r.Reader.Get(ctx, key, obj, opts...)
	}
	r.shown.DeepCopyInto(obj.(*v1alpha1.PodProtector))
	return nil
}

// A repeated request that arrives after its pod's name was stored must renew the reservation: the aggregator times it from then (rule 4(b)).
func TestRepeatAfterNamingRenews(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		pod := memoryPod("again")
		if e.remove(e.Context(), pod).Denial != nil {
			t.Fatal("denied")
		}
		lag := &laggingReader{Reader: e.client, shown: e.stored(e, "web")}
		e.core.States.protectors.Cache = lag
		stored := make(chan struct{}, 1)
		e.setFault(func(write func() error) error {
			err := write()
			stored <- struct{}{}
			<-time.After(400 * time.Millisecond) // the answer is late
			return err
		})
		var flush sync.WaitGroup
		flush.Go(func() { _ = e.core.reserver.flushEscrow(escrowTestProtector) })
		<-stored
		<-time.After(300 * time.Millisecond)
		began := time.Now()
		if denial := e.remove(e.Context(), pod).Denial; denial != nil {
			t.Fatal(denial)
		}
		e.setFault(e.write)
		lag.mu.Lock()
		lag.shown = nil
		lag.mu.Unlock()
		flush.Wait()
		<-time.After(2 * quota.EscrowLifetime)
		for r := range quota.Reservations(e.history()) {
			if r.Hash == quota.HashUID(pod.UID) && r.Stamp.Before(began.Truncate(time.Microsecond)) {
				t.Errorf("the reservation has the time %s before the repeat, want that of the repeat", began.Sub(r.Stamp))
			}
		}
	})
}

// A write that gives an escrow back fails once. It must be tried again.
func TestFailedGiveBackOfEscrowIsRepeated(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		e.removePods(8)
		e.setFault(func(func() error) error { return errors.New("connection refused") })
		<-time.After(2 * quota.EscrowLifetime) // idle: the give-back fails
		e.setFault(e.write)
		<-time.After(10 * quota.EscrowLifetime)
		e.wantReserved(8, 0)
	})
}

// SIGTERM while the first write of an escrow is under way.
func TestEscrowOfAWriteUnderWayAtTheEnd(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		var requests sync.WaitGroup
		requests.Go(func() { e.removePods(8) })
		<-time.After(15 * time.Millisecond) // the second write, with several removals, is under way
		e.core.reserver.escrows.close()     // Core.Start ends
		requests.Wait()
		e.Wait() // server.stop
		e.wantReserved(8, 0)
	})
}

// Two requests hold a reservation. One gives back; a proxy repeats its write, whose first copy was stored, and the core answers Conflict.
func TestRepeatedWriteGivesBackOnce(t *testing.T) {
	runEscrowTest(t, 10, 100, func(e *escrowTest) {
		attempt := func() historyOp {
			now := time.Now()
			return historyOp{claim: &quota.Claim{}, removal: quota.Removal{
				Cell: memoryCell, PodUID: "u", PodName: "p", Operation: v1alpha1.OperationDelete, At: now, Token: NewToken(), RevocableUntil: now.Add(5 * time.Second),
			}}
		}
		first, second := attempt(), attempt()
		for _, op := range []historyOp{first, second} {
			if r, err := e.core.reserver.enqueue(e.Context(), escrowTestProtector, op); err != nil || !r.verdict.Outcome.Admitted() {
				t.Fatal(r, err)
			}
		}
		repeated := false
		e.setFault(func(write func() error) error {
			err := write()
			if err == nil && !repeated {
				repeated = true
				return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), "web", errors.New("repeated"))
			}
			return err
		})
		first.kind = opGiveBack
		if _, err := e.core.reserver.giveBack(e.Context(), escrowTestProtector, first); err != nil {
			t.Fatal(err)
		}
		if !quota.HasReservation(e.history(), "u") {
			t.Error("the second request has lost its reservation")
		}
	})
}
