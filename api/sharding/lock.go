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

// lock is the Lease of a shard for client-go's elector. The elector decides when to renew, and would acquire a lost Lease again.
// So lock decides whether it may. The elector makes one call at a time.
type lock struct {
	incarnation

	client client.Client
	key    client.ObjectKey
	// stable means that a shard of the same name comes back after a stop.
	stable bool
	hold   *leaseHold
	work   *work

	// lease is the last version that the API server returned.
	lease *coordinationv1.Lease
	// awaitedHolder is the holder that this shard waits for.
	awaitedHolder string
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	joined := l.hold.hasJoined()
	if why := l.hold.Lost(); why != nil && !errors.Is(why, errRevoked) {
		return nil, nil, why
	}
	lease := &coordinationv1.Lease{}
	ctx, cancel := l.withRequestTimeout(ctx)
	defer cancel()
	err := l.client.Get(ctx, l.key, lease)
	if joined && (apierrors.IsNotFound(err) || err == nil && lease.UID != l.lease.UID) {
		l.hold.end(errDeleted) // also if another client has recreated it, with any content
		return nil, nil, errDeleted
	}
	if err != nil {
		return nil, nil, err // the elector creates the Lease if it is not found
	}
	l.lease = lease
	raw, err := json.Marshal(lease.Spec) // the record has whole seconds, and would hide a renewal
	if err != nil {
		return nil, nil, err
	}
	if joined {
		record, err := l.ownRecord(lease)
		return record, raw, err
	}
	if err := l.checkAcquirable(lease); err != nil {
		return nil, nil, err
	}
	record := l.recordOf(lease)
	l.logAwaitedHolder(ctx, record)
	return record, raw, nil
}

// ownRecord returns the record of a Lease that this incarnation has held. A revoked Lease counts as its own, so that it can be
// released.
func (l *lock) ownRecord(lease *coordinationv1.Lease) (*resourcelock.LeaderElectionRecord, error) {
	why := l.lossReason(lease)
	if why != nil {
		l.hold.end(why)
		if !errors.Is(why, errRevoked) {
			return nil, why
		}
	}
	record := l.recordOf(lease)
	record.HolderIdentity = l.identity
	return record, nil
}

// logAwaitedHolder logs once which holder the shard waits for.
func (l *lock) logAwaitedHolder(ctx context.Context, record *resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == l.awaitedHolder {
		return
	}
	l.awaitedHolder = record.HolderIdentity
	if l.awaitedHolder != "" && l.awaitedHolder != l.identity {
		logr.FromContextOrDiscard(ctx).Info("Waiting until the Lease of the shard is released or expires",
			"ring", l.ring, "shard", l.name, "lease", l.key, "holder", l.awaitedHolder, "seconds", record.LeaseDurationSeconds)
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

// Update implements resourcelock.Interface. The elector releases the Lease by an empty holder.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errors.New("cannot update a Lease that was not read")
	}
	if record.HolderIdentity == "" {
		return l.release(ctx)
	}
	lease := l.lease.DeepCopy()
	return l.send(ctx, lease, func(ctx context.Context) error { return l.client.Update(ctx, lease) })
}

// send renews or acquires the Lease for this incarnation, unless the Lease has changed since it was read.
func (l *lock) send(ctx context.Context, lease *coordinationv1.Lease, write func(context.Context) error) error {
	if err := l.hold.err(); err != nil && !errors.Is(err, errNotJoined) {
		return err
	}
	ctx, cancel := l.withRequestTimeout(ctx)
	defer cancel()
	now := time.Now()
	l.setHolder(lease, l.identity, now)
	if err := write(ctx); err != nil {
		return err
	}
	l.lease = lease
	return l.hold.recordRenewal(now)
}

// maxRetryPeriod is the longest interval between renewals, so that a shard soon notices that its Lease was taken from it.
const maxRetryPeriod = 10 * time.Second

// electorTiming returns the Lease duration, how long an elector tries to renew the Lease, and how often.
func (l *lock) electorTiming() (duration, renew, retry time.Duration) {
	return l.duration, l.duration * 9 / 10, min(l.duration*2/15, maxRetryPeriod)
}

// withRequestTimeout limits a request to a quarter of the Lease duration, so that there is time for another one.
func (l *lock) withRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.duration/4)
}

// RecordEvent implements resourcelock.Interface. It writes no events, so that a shard needs no permission to create them.
func (l *lock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *lock) Describe() string { return l.key.String() }
