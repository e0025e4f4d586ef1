package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/ring"
)

// shardLease is the Lease of one incarnation of a shard. When it has lapsed, was taken or is gone it is lost for good: others may
// have what was the shard's.
type shardLease struct {
	leases             coordinationv1.LeaseInterface
	ring, name, holder string
	// before is the incarnation that this process was last, of which nothing is left.
	before         string
	seconds        int32
	now, monotonic func() time.Time

	// stored is the Lease as it was written last, and seen since when another's is as it is.
	stored *coordination.Lease
	seen   struct {
		version string
		at      time.Time
	}

	mu sync.Mutex
	// until is when it lapses, on this machine's monotonic clock.
	until time.Time
}

var (
	errLapsed = errors.New("its Lease could not be renewed in time")
	errTaken  = errors.New("its Lease was taken from it")
)

// held tells whether it can be relied on.
func (l *shardLease) held() bool { return l.left() > 0 }

func (l *shardLease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until.Sub(l.monotonic())
}

func (l *shardLease) duration() time.Duration { return time.Duration(l.seconds) * time.Second }

// acquire waits until the Lease is there to be taken, and takes it.
func (l *shardLease) acquire(ctx context.Context) error {
	for {
		taken, err := l.try(ctx)
		if err != nil || taken {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(l.duration() / 8):
		}
	}
}

func (l *shardLease) try(ctx context.Context) (taken bool, err error) {
	lease, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	sent := l.monotonic()
	if apierrors.IsNotFound(err) {
		lease = &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name, Labels: map[string]string{v1alpha1.LabelRing: l.ring}}}
		l.fill(lease)
		lease, err = l.leases.Create(ctx, lease, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return l.wrote(lease, sent, err)
	}
	if err != nil {
		return false, fmt.Errorf("read Lease %s: %w", l.name, err)
	}
	if of := lease.Labels[v1alpha1.LabelRing]; of != l.ring {
		return false, fmt.Errorf("lease %s/%s is of ring %q: give the shard another name by --shard", lease.Namespace, l.name, of)
	}
	if !l.isFree(lease, sent) {
		return false, nil
	}
	l.fill(lease)
	lease, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return l.wrote(lease, sent, err)
}

// isFree tells whether nobody can be at work by a Lease: its holder has left, or has not renewed it for as long as it lasts. One
// that was revoked is waited for until it is buried.
func (l *shardLease) isFree(lease *coordination.Lease, now time.Time) bool {
	if holder := holderOf(lease); !mayWork(l.name, holder) || holder == l.name+"_" || holder == l.before {
		return true
	}
	if l.seen.version != lease.ResourceVersion {
		l.seen.version, l.seen.at = lease.ResourceVersion, now
	}
	lasts := l.duration()
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		lasts = max(lasts, time.Duration(*seconds)*time.Second)
	}
	return holderOf(lease) != ring.Revoked && now.Sub(l.seen.at) > lasts
}

// fill makes a Lease this incarnation's.
func (l *shardLease) fill(lease *coordination.Lease) {
	now, transitions := metav1.NewMicroTime(l.now()), int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	lease.Spec = coordination.LeaseSpec{
		HolderIdentity: &l.holder, LeaseDurationSeconds: &l.seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
	}
}

// wrote notes that the Lease was renewed by a request that was sent at a time.
func (l *shardLease) wrote(lease *coordination.Lease, sent time.Time, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("write Lease %s: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored, l.until = lease, sent.Add(l.duration())
	return true, nil
}

// keep renews it until it is lost, or ctx ends.
func (l *shardLease) keep(ctx context.Context) error {
	for {
		// A request that hangs must not hide that the Lease has lapsed.
		limit, cancel := context.WithTimeout(ctx, l.left())
		lapses := time.After(l.left())
		select {
		case <-ctx.Done():
			cancel()
			return nil
		case <-lapses:
			cancel()
			return errLapsed
		case <-time.After(l.duration() / 4):
		}
		err := l.renew(limit)
		cancel()
		switch {
		case errors.Is(err, errTaken):
			l.lapse()
			return err
		case ctx.Err() != nil:
			return nil
		case !l.held():
			return errLapsed
		}
	}
}

// lapse makes it worth nothing at once.
func (l *shardLease) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = l.monotonic()
}

func (l *shardLease) renew(ctx context.Context) error {
	lease, now, sent := l.stored.DeepCopy(), metav1.NewMicroTime(l.now()), l.monotonic()
	lease.Spec.RenewTime = &now
	lease, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errTaken
	case apierrors.IsConflict(err):
		// Somebody has put a label on it, or our own last write was stored and its answer lost; or it was taken.
		lease, err = l.leases.Get(ctx, l.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (holderOf(lease) != l.holder || lease.UID != l.stored.UID) {
			return errTaken
		}
		if err == nil {
			l.stored = lease
			return l.renew(ctx)
		}
		return err
	}
	_, err = l.wrote(lease, sent, err)
	return err
}

// giveUp lets others have what was the shard's, at once or, if it returns, when it has not come back in time.
func (l *shardLease) giveUp(ctx context.Context, returns bool) error {
	lease, holder, now := l.stored.DeepCopy(), "", metav1.NewMicroTime(l.now())
	if returns {
		holder = l.name + "_"
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
	l.lapse()
	_, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// mayWork asks the apiserver whether a shard may be at work.
func (l *shardLease) mayWork(ctx context.Context) (bool, error) {
	lease, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("read Lease %s: %w", l.name, err)
	}
	return lease.Labels[v1alpha1.LabelRing] == l.ring && mayWork(l.name, holderOf(lease)), nil
}

// mayWork tells it by the holder of a Lease; what a shard that has stopped has is kept for it.
func mayWork(shard, holder string) bool {
	return holder == ring.Revoked || strings.HasPrefix(holder, shard+"_")
}

func holderOf(lease *coordination.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
