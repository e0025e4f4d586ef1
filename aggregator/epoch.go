package aggregator

import (
	"context"
	"errors"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

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

// readCellAndVersion reads a Cell, and the current version of its cluster, with a reader that reads live. A list has both at one time.
func readCellAndVersion(ctx context.Context, reader client.Reader, name string) (*v1alpha1.Cell, uint64, error) {
	cells := &v1alpha1.CellList{}
	if err := reader.List(ctx, cells); err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(cells.Items, func(c v1alpha1.Cell) bool { return c.Name == name })
	if i < 0 {
		return nil, 0, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("cells").GroupResource(), name)
	}
	return &cells.Items[i], parseVersion(cells.ResourceVersion), nil
}
