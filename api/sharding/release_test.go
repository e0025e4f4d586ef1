package sharding

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func TestWhatAStopLeaves(t *testing.T) {
	for claim, of := range map[string]struct {
		stable bool
		before func(*actor)
		holder string
	}{
		"nobody, so that the objects go to others":        {false, func(*actor) {}, ""},
		"the name, so that they wait":                     {true, func(*actor) {}, "a_"},
		"the Lease as it is, while the apiserver is away": {true, func(a *actor) { a.away.Store(true) }, "a_1"},
		"nobody, when it ends because it was revoked": {true, func(a *actor) {
			a.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = ring.Revoked })
			pass(4 * time.Second)
		}, ""},
		"what another process has taken": {false, func(a *actor) {
			a.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "a_2" })
		}, "a_2"},
		"what the sharder has taken in the same moment, given up": {true, func(a *actor) {
			a.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = ring.Revoked })
		}, ""},
		"the Lease as it is, while an object is worked on": {false, func(a *actor) { a.lock.work.begin(job{}) }, "a_1"},
		"the Lease as it is, while a write is under way":   {false, func(a *actor) { a.lock.work.write() }, "a_1"},
		"the Lease as it is, when a write was given up":    {false, func(a *actor) { a.lock.work.write()(true) }, "a_1"},
		"nobody, when a write was given up long ago": {false, func(a *actor) {
			a.lock.work.write()(true)
			pass(lasts)
		}, ""},
		"nobody, when what was worked on has ended soon": {false, func(a *actor) {
			a.lock.work.begin(job{})
			go func() { <-time.After(5 * time.Second); a.lock.work.end(job{}) }()
		}, ""},
		"nobody, when a write has ended soon": {false, func(a *actor) {
			end := a.lock.work.write()
			go func() { <-time.After(5 * time.Second); end(false) }()
		}, ""},
		"the revoked Lease as it is, while an object is worked on": {true, func(a *actor) {
			a.lock.work.begin(job{})
			a.change(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = ring.Revoked })
			pass(4 * time.Second)
		}, ring.Revoked},
	} {
		t.Run(claim, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				a := s.enter("1", of.stable)
				pass(time.Minute)
				of.before(a)
				a.stop()
				pass(0)
				a.wantHeld(a.away.Load(), "from the moment that the Lease is given up")
				<-a.ended
				s.wantHolder(of.holder)
				if seconds := *s.lease().Spec.LeaseDurationSeconds; seconds != 15 {
					s.Errorf("the Lease lasts %d s: who stops must not seem dead sooner", seconds)
				}
			})
		})
	}
}
