package aggregator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the lock of the leader election. A leader releases it only while it holds it. client-go's elector releases the
// current Lease whenever it believes that it leads. A deposed leader would release the Lease of its successor, become a
// candidate again, and depose it in turn, for ever.
type lease struct {
	*resourcelock.LeaseLock
	// holder is who held the Lease at the last read.
	holder string
	// createBackoff are the delays between failing attempts to create the Lease: the elector logs each attempt.
	createBackoff wait.Backoff
}

// newCreateBackoff returns delays that grow to half a minute. An aggregator leads at most that long after its namespace was
// created.
func newCreateBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}
}

// Create implements resourcelock.Interface. If the namespace of the Lease does not exist, it returns an error that says so
// after a delay.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, record)
	if !apierrors.IsNotFound(err) {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(l.createBackoff.Step()):
	}
	return fmt.Errorf("cannot elect a leader for the cell: create namespace %q in the core cluster, or set another --leader-election-namespace: %w",
		l.LeaseMeta.Namespace, err)
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update implements resourcelock.Interface.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return nil
	}
	return l.LeaseLock.Update(ctx, record)
}
