package sharding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lock is the Lease of a shard as client-go's elector works with it. The elector decides when to renew, and takes a Lease again that it
// has lost; so whether it may is decided here. It makes one call after the other.
type lock struct {
	incarnation

	client client.Client
	key    client.ObjectKey
	// stable tells that a shard of the same name comes back after a stop.
	stable bool
	hold   *hold
	work   *work

	// lease is what the apiserver had last.
	lease *coordinationv1.Lease
	// awaited is who was found to have the Lease before this shard.
	awaited string
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	joined := l.hold.joined()
	if why := l.hold.Lost(); why != nil && !errors.Is(why, errRevoked) {
		return nil, nil, why
	}
	lease := &coordinationv1.Lease{}
	ctx, cancel := l.bound(ctx)
	defer cancel()
	err := l.client.Get(ctx, l.key, lease)
	if joined && (apierrors.IsNotFound(err) || err == nil && lease.UID != l.lease.UID) {
		l.hold.end(errDeleted) // also when somebody has made it anew, whatever it says
		return nil, nil, errDeleted
	}
	if err != nil {
		return nil, nil, err // the elector makes one when it is not found
	}
	l.lease = lease
	raw, err := json.Marshal(lease.Spec) // the record has whole seconds, and would hide a renewal
	if err != nil {
		return nil, nil, err
	}
	if joined {
		record, err := l.own(lease)
		return record, raw, err
	}
	if err := l.check(lease); err != nil {
		return nil, nil, err
	}
	record := l.record(lease)
	l.await(ctx, record)
	return record, raw, nil
}

// own is the record of the Lease that this incarnation has held. One that was revoked counts as its own, so that it can be given up.
func (l *lock) own(lease *coordinationv1.Lease) (*resourcelock.LeaderElectionRecord, error) {
	why := l.lost(lease)
	if why != nil {
		l.hold.end(why)
		if !errors.Is(why, errRevoked) {
			return nil, why
		}
	}
	record := l.record(lease)
	record.HolderIdentity = l.identity
	return record, nil
}

// await says once whom the shard waits for.
func (l *lock) await(ctx context.Context, record *resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == l.awaited {
		return
	}
	l.awaited = record.HolderIdentity
	if l.awaited != "" && l.awaited != l.identity {
		logr.FromContextOrDiscard(ctx).Info("The shard waits until the Lease of its name is given up, or has not been renewed for a while",
			"ring", l.ring, "shard", l.name, "lease", l.key, "holder", l.awaited, "seconds", record.LeaseDurationSeconds)
	}
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, _ resourcelock.LeaderElectionRecord) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name}}
	return l.send(ctx, lease, func(ctx context.Context) error {
		err := l.client.Create(ctx, lease)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s, in which ring %q has the Leases of its shards, does not exist: create it", l.key.Namespace, l.ring)
		}
		return err
	})
}

// Update implements resourcelock.Interface. The elector gives the Lease up by an empty holder.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errors.New("a Lease that was not read cannot be updated")
	}
	if record.HolderIdentity == "" {
		return l.giveUp(ctx)
	}
	lease := l.lease.DeepCopy()
	return l.send(ctx, lease, func(ctx context.Context) error { return l.client.Update(ctx, lease) })
}

// send makes a Lease this incarnation's for some more time, unless it has changed since it was read.
func (l *lock) send(ctx context.Context, lease *coordinationv1.Lease, write func(context.Context) error) error {
	if err := l.hold.err(); err != nil && !errors.Is(err, errNotYet) {
		return err
	}
	ctx, cancel := l.bound(ctx)
	defer cancel()
	now := time.Now()
	l.take(lease, l.identity, now)
	if err := write(ctx); err != nil {
		return err
	}
	l.lease = lease
	return l.hold.renewed(now)
}

// longestRetry is how long a shard waits at most between renewals, so that it notices soon when its Lease was taken from it.
const longestRetry = 10 * time.Second

// timing is how long the Lease lasts, for how long an elector tries to renew it, and how often.
func (l *lock) timing() (lasts, renew, retry time.Duration) {
	return l.duration, l.duration * 9 / 10, min(l.duration*2/15, longestRetry)
}

// bound lets a request take a quarter of the time that the Lease lasts, so that there is time for another one.
func (l *lock) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.duration/4)
}

// RecordEvent implements resourcelock.Interface: there are no events, since a shard need not be allowed to make any.
func (l *lock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *lock) Describe() string { return l.key.String() }
