package members

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// leaseChanged records the current state of a Lease.
func (t *ShardTracker) leaseChanged(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(lease)
	t.mu.Lock()
	before := t.leases[key]
	err := ring.CheckLease(lease)
	if err == nil && before != nil && before.lease.Labels[v1alpha1.LabelRing] != lease.Labels[v1alpha1.LabelRing] && ring.IsAvailable(before.stateAt(t.now())) {
		err = errors.New("its label names another ring than before, whose shard may still work")
	}
	if err != nil {
		now := t.recordLost(key)
		t.mu.Unlock()
		t.log.Info("Ignored an invalid Lease", "lease", key, "ring", lease.Labels[v1alpha1.LabelRing], "reason", err.Error())
		t.notifyIfChanged(before, now)
		return
	}
	now := &observedLease{lease: lease, unchangedSince: t.now()}
	switch {
	case before == nil:
		now.unchangedSince = now.unchangedSince.Add(-t.ageOf(lease))
	case !before.isLost && equality.Semantic.DeepEqual(before.lease.Spec, lease.Spec):
		now.unchangedSince = before.unchangedSince
	}
	t.leases[key] = now
	t.mu.Unlock()
	t.notifyIfChanged(before, now)
	t.queue.Add(key)
}

// recordLost records the end of a Lease, and returns what is left of it. A shard that held the Lease continues until it notices, which
// takes up to the lease duration. Nothing is left of a dead shard's Lease.
func (t *ShardTracker) recordLost(key types.NamespacedName) *observedLease {
	s := t.leases[key]
	if s == nil || !ring.IsAvailable(s.stateAt(t.now())) {
		delete(t.leases, key)
		return nil
	}
	if !s.isLost {
		s = &observedLease{lease: s.lease, unchangedSince: t.now(), isLost: true}
		t.leases[key] = s
		t.queue.Add(key)
	}
	return s
}

// ageOf returns the apparent age of a Lease that is seen for the first time, from its renewTime and the local clock. It is at most
// the lease duration, so that a wrong clock cannot make a working shard appear dead.
func (t *ShardTracker) ageOf(lease *coordinationv1.Lease) time.Duration {
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return min(max(t.now().Sub(lease.Spec.RenewTime.Time), 0), duration)
}

func (t *ShardTracker) leaseDeleted(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(lease)
	t.mu.Lock()
	before := t.leases[key]
	now := t.recordLost(key)
	t.mu.Unlock()
	t.notifyIfChanged(before, now)
}

// notifyIfChanged calls the registered functions if a Lease was added, was removed, or has another holder.
func (t *ShardTracker) notifyIfChanged(before, now *observedLease) {
	of := func(s *observedLease) string {
		if s == nil {
			return ""
		}
		return s.lease.Labels[v1alpha1.LabelRing]
	}
	if before != nil && now != nil && of(before) == of(now) && leaseholder.Of(before.lease) == leaseholder.Of(now.lease) &&
		before.isLost == now.isLost && before.stateAt(t.now()) == v1alpha1.ShardReady {
		return // it was only renewed
	}
	if of(before) != "" && of(before) != of(now) {
		t.notify(of(before))
	}
	if of(now) != "" {
		t.notify(of(now))
	}
}

func (t *ShardTracker) notify(ring string) {
	for _, listener := range t.listeners {
		listener(ring)
	}
}

// NeedLeaderElection returns false, because every replica needs the shards.
func (t *ShardTracker) NeedLeaderElection() bool { return false }

// Start checks each Lease whenever its state changes over time, without a change of the Lease.
func (t *ShardTracker) Start(ctx context.Context) error {
	go func() {
		<-ctx.Done()
		t.queue.ShutDown()
	}()
	for {
		key, shutdown := t.queue.Get()
		if shutdown {
			return nil
		}
		err := t.processLease(ctx, key)
		switch {
		case err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			t.queue.Forget(key) // the change of the other client results in an event
		default:
			t.log.Error(err, "Failed to tombstone a silent shard", "lease", key)
			t.queue.AddRateLimited(key)
		}
		t.queue.Done(key)
	}
}

// processLease performs the step that is due for a Lease, and schedules the next one.
func (t *ShardTracker) processLease(ctx context.Context, key types.NamespacedName) error {
	t.mu.Lock()
	s := t.leases[key]
	if s == nil {
		t.mu.Unlock()
		return nil
	}
	lease, unchanged := s.lease, t.now().Sub(s.unchangedSince)
	t.mu.Unlock()
	if s.isLost {
		t.dropWhenStopped(key, s, 2*s.duration()-unchanged)
		return nil
	}
	step, after := ring.NextStep(lease, unchanged)
	if after > 0 {
		t.queue.AddAfter(key, after)
	}
	name := lease.Labels[v1alpha1.LabelRing]
	if unchanged > s.duration() {
		t.notify(name) // its state has changed
	}
	if step == ring.Wait {
		return nil
	}
	if !t.mayTombstone() {
		t.queue.AddAfter(key, time.Second) // the process that does so now may end before it has finished
		return nil
	}
	if step == ring.Delete {
		version := lease.ResourceVersion
		return t.client.Delete(ctx, lease, client.Preconditions{ResourceVersion: &version})
	}
	t.log.Info("Tombstoned a silent shard; reassigning its objects", "ring", name, "shard", lease.Name, "holder", leaseholder.Of(lease))
	return t.setHolder(ctx, lease, "")
}

// dropWhenStopped drops a shard that has lost its Lease once the shard must have noticed.
func (t *ShardTracker) dropWhenStopped(key types.NamespacedName, s *observedLease, left time.Duration) {
	if left >= 0 {
		t.queue.AddAfter(key, left+time.Millisecond)
		return
	}
	t.mu.Lock()
	if t.leases[key] == s {
		delete(t.leases, key)
	}
	t.mu.Unlock()
	name := s.lease.Labels[v1alpha1.LabelRing]
	t.log.Info("Dropped a shard that lost its Lease; reassigning its objects", "ring", name, "shard", key.Name)
	t.notify(name)
}
