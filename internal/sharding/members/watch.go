package members

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// changed records the current state of a Lease.
func (r *Roll) changed(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(lease)
	r.mu.Lock()
	before := r.leases[key]
	if err := ring.CheckLease(lease); err != nil {
		now := r.lose(key)
		r.mu.Unlock()
		r.log.Info("A Lease is not heeded", "lease", key, "ring", lease.Labels[v1alpha1.LabelRing], "reason", err.Error())
		r.tell(before, now)
		return
	}
	now := &seen{lease: lease, since: r.now()}
	switch {
	case before == nil:
		now.since = now.since.Add(-r.ageOf(lease))
	case !before.lost && equality.Semantic.DeepEqual(before.lease.Spec, lease.Spec):
		now.since = before.since
	}
	r.leases[key] = now
	r.mu.Unlock()
	r.tell(before, now)
	r.queue.Add(key)
}

// lose records the end of a Lease, and returns what is left of it. A shard that held the Lease continues until it notices, which
// takes up to the lease duration. Nothing is left of a dead shard's Lease.
func (r *Roll) lose(key types.NamespacedName) *seen {
	s := r.leases[key]
	if s == nil || !ring.IsAvailable(s.stateAt(r.now())) {
		delete(r.leases, key)
		return nil
	}
	if !s.lost {
		s = &seen{lease: s.lease, since: r.now(), lost: true}
		r.leases[key] = s
		r.queue.Add(key)
	}
	return s
}

// ageOf returns the apparent age of a Lease that is seen for the first time, from its renewTime and the local clock. It is at most
// the lease duration, so that a wrong clock cannot make a working shard appear dead.
func (r *Roll) ageOf(lease *coordinationv1.Lease) time.Duration {
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return min(max(r.now().Sub(lease.Spec.RenewTime.Time), 0), duration)
}

func (r *Roll) deleted(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(lease)
	r.mu.Lock()
	before := r.leases[key]
	now := r.lose(key)
	r.mu.Unlock()
	r.tell(before, now)
}

// tell calls the registered functions if a Lease was added, was removed, or has another holder.
func (r *Roll) tell(before, now *seen) {
	of := func(s *seen) string {
		if s == nil {
			return ""
		}
		return s.lease.Labels[v1alpha1.LabelRing]
	}
	if before != nil && now != nil && of(before) == of(now) && ring.HolderOf(before.lease) == ring.HolderOf(now.lease) &&
		before.lost == now.lost && before.stateAt(r.now()) == v1alpha1.ShardReady {
		return // it was only renewed
	}
	if of(before) != "" && of(before) != of(now) {
		r.announce(of(before))
	}
	if of(now) != "" {
		r.announce(of(now))
	}
}

func (r *Roll) announce(ring string) {
	for _, who := range r.told {
		who(ring)
	}
}

// NeedLeaderElection returns false, because every replica needs the shards.
func (r *Roll) NeedLeaderElection() bool { return false }

// Start checks each Lease whenever its state changes over time, without a change of the Lease.
func (r *Roll) Start(ctx context.Context) error {
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	for {
		key, over := r.queue.Get()
		if over {
			return nil
		}
		err := r.look(ctx, key)
		switch {
		case err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			r.queue.Forget(key) // the change of the other client results in an event
		default:
			r.log.Error(err, "What a silent shard leaves behind is not taken over", "lease", key)
			r.queue.AddRateLimited(key)
		}
		r.queue.Done(key)
	}
}

// look performs the step that is due for a Lease, and schedules the next one.
func (r *Roll) look(ctx context.Context, key types.NamespacedName) error {
	r.mu.Lock()
	s := r.leases[key]
	if s == nil {
		r.mu.Unlock()
		return nil
	}
	lease, unchanged := s.lease, r.now().Sub(s.since)
	r.mu.Unlock()
	if s.lost {
		r.waitOut(key, s, 2*s.duration()-unchanged)
		return nil
	}
	step, after := ring.NextStep(lease, unchanged)
	if after > 0 {
		r.queue.AddAfter(key, after)
	}
	name := lease.Labels[v1alpha1.LabelRing]
	if unchanged > s.duration() {
		r.announce(name) // its state has changed
	}
	if step == ring.Wait {
		return nil
	}
	if !r.buries() {
		r.queue.AddAfter(key, time.Second) // the process that does so now may end before it has finished
		return nil
	}
	if step == ring.Forget {
		version := lease.ResourceVersion
		return r.client.Delete(ctx, lease, client.Preconditions{ResourceVersion: &version})
	}
	r.log.Info("A shard has fallen silent: its objects go to others", "ring", name, "shard", lease.Name, "holder", ring.HolderOf(lease))
	return r.hold(ctx, lease, "")
}

// waitOut drops a shard that has lost its Lease once the shard must have noticed.
func (r *Roll) waitOut(key types.NamespacedName, s *seen, left time.Duration) {
	if left >= 0 {
		r.queue.AddAfter(key, left+time.Millisecond)
		return
	}
	r.mu.Lock()
	if r.leases[key] == s {
		delete(r.leases, key)
	}
	r.mu.Unlock()
	name := s.lease.Labels[v1alpha1.LabelRing]
	r.log.Info("A shard has lost its Lease: its objects go to others", "ring", name, "shard", key.Name)
	r.announce(name)
}
