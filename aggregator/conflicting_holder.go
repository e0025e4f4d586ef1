package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
)

// A cell is counted by one leader, or by the shards of one ring. If both try, nothing breaks, because epochs order them. But they
// would take the cell from each other for ever. So each waits until the other has stopped.

// conflictTimeout is how long a shard must have been silent before a leader, or a shard of another ring, takes its slots.
const conflictTimeout = time.Minute

// leaseName is the name of the Lease of a cell's leader.
func leaseName(cell string) string { return "aggregator-" + cell }

// conflictingHolders waits for the other holders of a cell: a leader for shards, and shards for a leader.
type conflictingHolders struct {
	cell       string
	leases     coordinationclient.LeaseInterface
	heartbeats heartbeat.Tracker
	monotonic  func() time.Time
}

// awaitShards returns an error while shards of the cell report, so that no leader takes it. It removes the entries of silent
// shards.
func (h *conflictingHolders) awaitShards(cell *v1alpha1.Cell) error {
	for i := range cell.Status.Shards {
		if s := &cell.Status.Shards[i]; !h.isSilent("shard "+s.Name, heartbeatOf(s), conflictTimeout) {
			return fmt.Errorf("shard %s of ring %s counts some of its namespaces: stop the shards, or set --ring and --shard here too", s.Name, s.Ring)
		}
	}
	cell.Status.Shards = nil
	return nil
}

// heartbeatOf returns a shard's heartbeat, as a string that changes with each report.
func heartbeatOf(s *v1alpha1.CellShard) string {
	text := fmt.Sprint(s.Holder, " ", s.Epoch, " ", s.Slots)
	if s.LastHeartbeat != nil {
		text += " " + s.LastHeartbeat.String()
	}
	return text
}

// isSilent reports whether the heartbeat of a holder has not changed for timeout.
func (h *conflictingHolders) isSilent(holder, value string, timeout time.Duration) bool {
	now := h.monotonic()
	h.heartbeats.Observe(holder, value, now)
	return h.heartbeats.State(holder, timeout, now) == heartbeat.Silent
}

var errHasLeader = errors.New("an aggregator without --ring leads the cell: stop it so that the shards take over")

// awaitLeader returns an error while one leader counts the cell, so that no shards take it. A leader that is a candidate for a
// cell with shards does not count it.
func (h *conflictingHolders) awaitLeader(ctx context.Context, cell *v1alpha1.Cell) error {
	if len(cell.Status.Shards) > 0 {
		return nil
	}
	lease, err := h.leases.Get(ctx, leaseName(h.cell), metav1.GetOptions{})
	switch spec := &lease.Spec; {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("check whether the cell has a leader: %w", err)
	case spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.LeaseDurationSeconds == nil:
		return nil
	case h.isSilent("leader", lease.ResourceVersion, time.Duration(*spec.LeaseDurationSeconds)*time.Second):
		return nil
	default:
		return errHasLeader
	}
}
