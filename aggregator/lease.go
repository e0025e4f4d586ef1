package aggregator

import (
	"context"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the lock of the leader election, which a leader gives up only as long as it is its own. client-go's elector
// gives up whatever lease there is when it believes that it leads: a leader that was deposed would take the lease from its
// successor, stand again, and depose it in turn, for ever.
type lease struct {
	*resourcelock.LeaseLock
	// holder is who held it when it was read last.
	holder string
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
