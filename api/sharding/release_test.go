package sharding

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
)

func TestStopLeavesTheExpectedLease(t *testing.T) {
	for claim, of := range map[string]struct {
		stable bool
		before func(*participant)
		holder string
	}{
		"no holder, so that the objects are reassigned": {false, func(*participant) {}, ""},
		"the name, so that the objects wait":            {true, func(*participant) {}, "a_"},
		"the Lease while the API server is unreachable": {true, func(a *participant) { a.unreachable.Store(true) }, "a_1"},
		"no holder after a revocation": {true, func(a *participant) {
			a.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = leaseholder.Revoked })
			sleep(4 * time.Second)
		}, ""},
		"the Lease of another process": {false, func(a *participant) {
			a.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" })
		}, "a_2"},
		"no holder after a concurrent revocation": {true, func(a *participant) {
			a.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = leaseholder.Revoked })
		}, ""},
		"the Lease unchanged during a reconcile":                    {false, func(a *participant) { a.lock.work.begin(job{}) }, "a_1"},
		"the Lease unchanged during a write":                        {false, func(a *participant) { a.lock.work.write() }, "a_1"},
		"the Lease unchanged after a write with an unknown outcome": {false, func(a *participant) { a.lock.work.write()(true) }, "a_1"},
		"no holder long after a write with an unknown outcome": {false, func(a *participant) {
			a.lock.work.write()(true)
			sleep(leaseDuration)
		}, ""},
		"no holder when the reconcile ends soon": {false, func(a *participant) {
			a.lock.work.begin(job{})
			go func() { <-time.After(5 * time.Second); a.lock.work.end(job{}) }()
		}, ""},
		"no holder when the write ends soon": {false, func(a *participant) {
			end := a.lock.work.write()
			go func() { <-time.After(5 * time.Second); end(false) }()
		}, ""},
		"the revoked Lease unchanged during a reconcile": {true, func(a *participant) {
			a.lock.work.begin(job{})
			a.updateLease(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = leaseholder.Revoked })
			sleep(4 * time.Second)
		}, leaseholder.Revoked},
	} {
		t.Run(claim, func(t *testing.T) {
			withFakeAPIServer(t, nil, func(s *fakeAPIServer) {
				a := s.startIncarnation("1", of.stable)
				sleep(time.Minute)
				of.before(a)
				a.stop()
				sleep(0)
				a.wantHeld(a.unreachable.Load(), "after the release of the Lease")
				<-a.ended
				s.wantHolder(of.holder)
				if seconds := *s.lease().Spec.LeaseDurationSeconds; seconds != 15 {
					s.Errorf("the Lease lasts %d s: a stopped shard must not seem dead sooner", seconds)
				}
			})
		})
	}
}
