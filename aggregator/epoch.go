package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// startState is the state with which a leadership begins.
type startState struct {
	cell *v1alpha1.Cell
	// version is the core's version at the start, and restored that of the core's last restore; see CellAggregator. Only a
	// process that recorded the restore itself can determine how long ago it was.
	version, restored uint64
	// beganAt is when the leadership began, on the monotonic clock.
	beganAt time.Time
}

// raiseEpoch makes this process the holder of an epoch above every stored one, by compare-and-swap on the Cell (rule 5). Once this leader
// has written, every later write of an earlier leader has a lower epoch. A restored core issues epochs a second time; this
// process never takes one again that it has already had.
func (a *Aggregator) raiseEpoch(ctx context.Context) (startState, error) {
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return startState{}, fmt.Errorf("read PodProtectors: %w", context.Cause(ctx))
	}
	state := startState{}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell, now, err := a.readCell(ctx)
		if err != nil {
			return err
		}
		if err := a.checkCluster(cell); err != nil {
			return err
		}
		if err := a.awaitShards(cell); err != nil {
			return err
		}
		state.cell, state.restored = cell, parseVersion(cell.Status.Aggregator.RestoredVersion)
		if a.isRestored(cell, now) {
			state.restored = now
		}
		epoch := max(cell.Status.Aggregator.Epoch, a.highestStoredEpoch(), a.epoch) + 1
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: a.options.Identity, Epoch: epoch, RestoredVersion: formatVersion(state.restored), SeenVersion: formatVersion(now),
		}
		return a.coreClient.Status().Update(ctx, cell)
	})
	if apierrors.IsNotFound(err) {
		return state, fmt.Errorf("the core cluster has no Cell %q: create it, or correct --cell", a.options.Cell)
	}
	if err != nil {
		return state, fmt.Errorf("raise the epoch of Cell %s: %w", a.options.Cell, err)
	}
	a.epoch, state.version = state.cell.Status.Aggregator.Epoch, parseVersion(state.cell.ResourceVersion)
	state.beganAt = a.monotonic()
	return state, nil
}

// checkCluster returns an error for a Cell of another cluster than the watched one, or else records the cluster in the Cell.
func (a *Aggregator) checkCluster(cell *v1alpha1.Cell) error {
	if watched := a.options.Cluster; watched != "" {
		if recorded := cell.Status.Cluster; recorded != "" && recorded != watched {
			return fmt.Errorf("the Cell is in cluster %s, but its kubeconfig leads to cluster %s", recorded, watched)
		}
		cell.Status.Cluster = watched
	}
	return nil
}

// readCell reads the Cell, and the current version of the core, from the API server.
func (a *Aggregator) readCell(ctx context.Context) (*v1alpha1.Cell, uint64, error) {
	cells := &v1alpha1.CellList{}
	if err := a.coreReader.List(ctx, cells); err != nil {
		return nil, 0, err
	}
	for i := range cells.Items {
		if cells.Items[i].Name == a.options.Cell {
			return &cells.Items[i], parseVersion(cells.ResourceVersion), nil
		}
	}
	return nil, 0, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("cells").GroupResource(), a.options.Cell)
}

// isRestored reports whether the core was restored from a backup since the last leadership that recorded a restore. Either this
// process has seen it, or the core is far ahead of the version that its leaders record every few seconds.
func (a *Aggregator) isRestored(cell *v1alpha1.Cell, now uint64) bool {
	lost, recorded := a.restoreDetector.LostVersion(), parseVersion(cell.Status.Aggregator.RestoredVersion)
	if lost > 0 && recorded <= lost {
		return true
	}
	return cell.Status.Aggregator.Epoch > 0 && clusters.ShowsRestore(seenVersion(cell), now)
}

// recordSeenVersion records in a Cell that is about to be updated the version at which it was read. It returns an error if that version cannot
// follow the recorded one: a report of this leadership, which may belong to the lost history, must not overwrite the evidence by
// which the next one detects the restore.
func recordSeenVersion(cell *v1alpha1.Cell) error {
	if clusters.ShowsRestore(seenVersion(cell), parseVersion(cell.ResourceVersion)) {
		return errRestored
	}
	cell.Status.Aggregator.SeenVersion = cell.ResourceVersion
	return nil
}

// seenVersion returns the recorded version. For a Cell without a record, which no leader has written since versions are
// recorded, it returns the Cell's own version.
func seenVersion(cell *v1alpha1.Cell) uint64 {
	if seen := parseVersion(cell.Status.Aggregator.SeenVersion); seen > 0 {
		return seen
	}
	return parseVersion(cell.ResourceVersion)
}

var errRestored = errors.New("the core cluster was restored from a backup")

// onRestore ends the leadership. The next one begins in the restored history.
func (a *Aggregator) onRestore() {
	if l := a.current.Load(); l != nil {
		l.stop(errRestored)
	}
}

// isBehind reports whether a former leader has counted a later state of the cell than this leadership's snapshot shows (rule 5). A leader that
// was paused, or has not noticed yet that it was deposed, continues until this one has written, and may settle a reservation by
// a state that the new leader's stream has not reached. Replacing its count by the older one would count the pod again, without
// its reservation. That later state is void only if the cell itself went backwards, as after a restore of its etcd. A restored
// core issues an epoch a second time, so a former leader may have the same epoch as this one.
func (r *reconciler) isBehind(ctx context.Context, key types.NamespacedName, stored *v1alpha1.Aggregation, version uint64) (bool, error) {
	counted := max(parseVersion(stored.SnapshotVersion), parseVersion(stored.SettledVersion))
	if own := stored.Epoch == r.ownership.epochOf(key.Namespace) && stored.Holder == r.ownership.holder(); own || counted <= version {
		return false, nil
	}
	live, err := r.reads.read(ctx, key.Namespace, "")
	if err != nil {
		return false, fmt.Errorf("check whether the cell was restored: %w", err)
	}
	r.log.V(1).Info("Found counts of a former leader from a later version", "protector", key, "counted", counted, "snapshot", version, "cell", live.version)
	return live.version >= counted, nil
}

// parseVersion parses a stored version. It returns 0 for an empty one, and for a malformed one, which no leader writes.
func parseVersion(version string) uint64 {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func formatVersion(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10)
}

// highestStoredEpoch returns the highest epoch in the protectors, in case the Cell was deleted and recreated. If a higher epoch
// was written after they were read, the first protector with it ends the leadership, and the next leadership has a higher epoch.
func (a *Aggregator) highestStoredEpoch() int64 {
	var highest int64
	for _, obj := range a.informer.GetStore().List() {
		if p, ok := obj.(*v1alpha1.PodProtector); ok {
			if cell := quota.CellOf(p, a.options.Cell); cell != nil {
				highest = max(highest, cell.Aggregation.Epoch)
			}
		}
	}
	return highest
}
