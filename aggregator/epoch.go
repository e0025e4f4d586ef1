package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// leadership is what a term begins with.
type leadership struct {
	cell *v1alpha1.Cell
	// version of the core that it began at, restored that of the core's last restore; see CellAggregator. How long ago that was
	// cannot be told, unless by whoever has noted it.
	version, restored uint64
}

// raiseEpoch makes this process the holder of an epoch above every stored one, by compare-and-swap on the Cell.
// Whatever an earlier leader still writes then is lower, once this one has written. A restored core gives epochs twice;
// those that this process has had it does not take again.
func (a *Aggregator) raiseEpoch(ctx context.Context) (leadership, error) {
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return leadership{}, fmt.Errorf("read PodProtectors: %w", context.Cause(ctx))
	}
	l := leadership{}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell, now, err := a.readCell(ctx)
		if err != nil {
			return err
		}
		if err := a.locate(cell); err != nil {
			return err
		}
		if err := a.awaitShards(cell); err != nil {
			return err
		}
		l.cell, l.restored = cell, parseVersion(cell.Status.Aggregator.RestoredVersion)
		if a.isRestored(cell, now) {
			l.restored = now
		}
		epoch := max(cell.Status.Aggregator.Epoch, a.highestStoredEpoch(), a.epoch) + 1
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: a.options.Identity, Epoch: epoch, RestoredVersion: formatVersion(l.restored), SeenVersion: formatVersion(now),
		}
		return a.core.Status().Update(ctx, cell)
	})
	if apierrors.IsNotFound(err) {
		return l, fmt.Errorf("the core cluster has no Cell %q: create it, or correct --cell", a.options.Cell)
	}
	if err != nil {
		return l, fmt.Errorf("raise the epoch of Cell %s: %w", a.options.Cell, err)
	}
	a.epoch, l.version = l.cell.Status.Aggregator.Epoch, parseVersion(l.cell.ResourceVersion)
	return l, nil
}

// locate refuses a Cell of another cluster than the one that is watched, or notes which it is.
func (a *Aggregator) locate(cell *v1alpha1.Cell) error {
	if own := a.options.Cluster; own != "" {
		if known := cell.Status.Cluster; known != "" && known != own {
			return fmt.Errorf("it is in cluster %s, and its kubeconfig leads to %s", known, own)
		}
		cell.Status.Cluster = own
	}
	return nil
}

// readCell reads the Cell, and the version that the core is at, from the apiserver.
func (a *Aggregator) readCell(ctx context.Context) (*v1alpha1.Cell, uint64, error) {
	cells := &v1alpha1.CellList{}
	if err := a.live.List(ctx, cells); err != nil {
		return nil, 0, err
	}
	for i := range cells.Items {
		if cells.Items[i].Name == a.options.Cell {
			return &cells.Items[i], parseVersion(cells.ResourceVersion), nil
		}
	}
	return nil, 0, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("cells").GroupResource(), a.options.Cell)
}

// isRestored tells whether the core was restored from a backup since the last leadership that has noted a restore. This
// process has seen it, or the core is far ahead of what its leaders report to have seen every few seconds.
func (a *Aggregator) isRestored(cell *v1alpha1.Cell, now uint64) bool {
	lost, noted := a.past.Lost(), parseVersion(cell.Status.Aggregator.RestoredVersion)
	if lost > 0 && noted <= lost {
		return true
	}
	return cell.Status.Aggregator.Epoch > 0 && clusters.IsAnotherPast(seenVersion(cell), now)
}

// see notes in a Cell, for the report that is to be written into it, the version at which it was read. A version that cannot
// follow on the one noted last is an error: a report of this leadership, which may be of the lost past, must not efface what
// tells the next one that the core was restored.
func see(cell *v1alpha1.Cell) error {
	if clusters.IsAnotherPast(seenVersion(cell), parseVersion(cell.ResourceVersion)) {
		return errRestored
	}
	cell.Status.Aggregator.SeenVersion = cell.ResourceVersion
	return nil
}

// seenVersion is what was noted last; of a Cell without a note, which nobody has written since there are notes, its own version.
func seenVersion(cell *v1alpha1.Cell) uint64 {
	if seen := parseVersion(cell.Status.Aggregator.SeenVersion); seen > 0 {
		return seen
	}
	return parseVersion(cell.ResourceVersion)
}

var errRestored = errors.New("the core cluster was restored from a backup")

// restored ends the term: the next one begins in the present past.
func (a *Aggregator) restored() {
	if t := a.term.Load(); t != nil {
		t.end(errRestored)
	}
}

// isBehind tells whether a former leader has counted a later state of the cell than this term's snapshot shows. A
// leader that was paused, or that does not know yet that it was deposed, goes on until this one has written: it may
// settle a reservation by a state that the new leader's stream has not reached. To put the older count in its place
// would count the pod anew, without its reservation. Only when the cell itself went back, as after a restore of its
// etcd, is that later state void. A core that was restored gives an epoch a second time, so that a former leader's may
// be ours.
func (t *term) isBehind(ctx context.Context, key types.NamespacedName, stored *v1alpha1.Aggregation, version uint64) (bool, error) {
	counted := max(parseVersion(stored.SnapshotVersion), parseVersion(stored.SettledVersion))
	if own := stored.Epoch == t.epochOf(key.Namespace) && stored.Holder == t.holder(); own || counted <= version {
		return false, nil
	}
	live, err := t.seeAlive(ctx, key.Namespace, "")
	if err != nil {
		return false, fmt.Errorf("find out whether the cell went back: %w", err)
	}
	t.log.V(1).Info("A former leader has counted a later state", "protector", key, "counted", counted, "snapshot", version, "cell", live.version)
	return live.version >= counted, nil
}

// parseVersion reads a stored version; 0 for none, and for what is no number, which no leader writes.
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

// highestStoredEpoch looks at the protectors, in case the Cell was deleted and made anew. An epoch that was
// written since they were read ends the term at the first protector that shows it, and the next one is higher.
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
