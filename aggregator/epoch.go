package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

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
