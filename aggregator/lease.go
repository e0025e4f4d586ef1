package aggregator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the lock of the leader election, which a leader gives up only as long as it is its own. client-go's elector
// gives up whatever lease there is when it believes that it leads: a leader that was deposed would take the lease from its
// successor, stand again, and depose it in turn, for ever.
type lease struct {
	*resourcelock.LeaseLock
	// holder is who held it when it was read last.
	holder string
	// pauses are those between attempts to make it which fail: the elector logs each of them.
	pauses wait.Backoff
}

// makingPauses get longer up to half a minute: so long after its namespace an aggregator leads at the latest.
func makingPauses() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}
}

// Create implements resourcelock.Interface. When nobody has made the lease's namespace, it says so and returns after a pause.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, record)
	if !apierrors.IsNotFound(err) {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(l.pauses.Step()):
	}
	return fmt.Errorf("nobody can count the cell: make namespace %q in the core cluster, or give another --leader-election-namespace: %w", l.LeaseMeta.Namespace, err)
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
