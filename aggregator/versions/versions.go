// Package versions records in a Cell up to which version of its core a leader has read, which shows that the core was restored.
package versions

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

// RecordSeen records in a Cell that is about to be updated the version at which it was read. It returns an error if that version cannot
// follow the recorded one: a report of this leadership, which may belong to the lost history, must not overwrite the evidence by
// which the next one detects the restore.
func RecordSeen(cell *v1alpha1.Cell) error {
	if clusters.ShowsRestore(Seen(cell), Parse(cell.ResourceVersion)) {
		return ErrRestored
	}
	cell.Status.Aggregator.SeenVersion = cell.ResourceVersion
	return nil
}

// Seen returns the recorded version. For a Cell without a record, which no leader has written since versions are
// recorded, it returns the Cell's own version.
func Seen(cell *v1alpha1.Cell) uint64 {
	if seen := Parse(cell.Status.Aggregator.SeenVersion); seen > 0 {
		return seen
	}
	return Parse(cell.ResourceVersion)
}

// ErrRestored ends a leadership whose core was restored: the next one begins in the restored history.
var ErrRestored = errors.New("the core cluster was restored from a backup")

// Parse parses a stored version. It returns 0 for an empty one, and for a malformed one, which no leader writes.
func Parse(version string) uint64 {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// Format formats a version for a status; 0 is empty.
func Format(version uint64) string {
	if version == 0 {
		return ""
	}
	return strconv.FormatUint(version, 10)
}

// ReadCell reads a Cell, and the current version of its cluster, with a reader that reads live. A list has both at one time.
func ReadCell(ctx context.Context, reader client.Reader, name string) (*v1alpha1.Cell, uint64, error) {
	cells := &v1alpha1.CellList{}
	if err := reader.List(ctx, cells); err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(cells.Items, func(c v1alpha1.Cell) bool { return c.Name == name })
	if i < 0 {
		return nil, 0, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("cells").GroupResource(), name)
	}
	return &cells.Items[i], Parse(cells.ResourceVersion), nil
}
