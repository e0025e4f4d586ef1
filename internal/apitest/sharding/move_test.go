package sharding_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestObjectsMoveBetweenRunningShards(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	r.createDeployments(8, "a")
	from, to := r.join("a", "--takes=100ms"), r.join("b")
	r.record.awaitWrites(from.identity, 0)
	for _, d := range r.deployments() {
		r.drain(&d)
	}
	for _, d := range r.deployments() {
		testplane.Eventually(t, func() string {
			if r.record.released(d.Name) == 0 {
				return d.Name + " was not released"
			}
			return ""
		})
		r.assign(&d, "b")
	}
	r.record.awaitWrites(to.identity, 0)
	r.record.awaitWrites(to.identity, r.record.now())
	for _, e := range r.record.writesOf(from.identity, 0) {
		if released := r.record.released(e.deployment); e.at > released {
			t.Errorf("write %v after the release at %d", e, released)
		}
	}
	for _, e := range r.record.writesOf(to.identity, 0) {
		if released := r.record.released(e.deployment); e.at < released {
			t.Errorf("write %v after the release at %d", e, released)
		}
	}
}
