package aggregator

import (
	"errors"
	"strconv"

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
