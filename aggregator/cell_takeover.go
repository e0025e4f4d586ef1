package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// startState is the state with which a leadership begins.
type startState struct {
	cell *v1alpha1.Cell
	// version is the core's version at the start, and restored that of the core's last restore; see CellAggregator. Only a
	// process that recorded the restore itself can determine how long ago it was.
	version, restored uint64
	// BeganAt is when the leadership began, on the monotonic clock.
	beganAt time.Time
	// CoreUID is the UID of the core's namespace kube-system, which tells its shares, and the namespaces that it protects, from those of other cores;
	// empty without the permission to read it.
	coreUID string
}

// cellTakeover writes the Cell when a leadership begins: it takes the whole cell, or joins its shards.
type cellTakeover struct {
	options   Options
	core      coreCluster
	holders   *conflictingHolders
	monotonic func() time.Time
	log       logr.Logger
	// lastReason is the last logged reason why the cell was not shared.
	lastReason string
	// highestOwnEpoch is the highest epoch that this process has had.
	highestOwnEpoch int64
}

// take makes this process the holder of an epoch above every stored one, by compare-and-swap on the Cell (rule 5). Once this leader
// has written, every later write of an earlier leader has a lower epoch. A restored core issues epochs a second time; this
// process never takes one again that it has already had.
func (t *cellTakeover) take(ctx context.Context) (startState, error) {
	state, err := t.begin(ctx, retry.DefaultBackoff, "raise the epoch of", t.holders.awaitShards, func(cell *v1alpha1.Cell) {
		epoch := max(cell.Status.Aggregator.Epoch, t.highestStoredEpoch(), t.highestOwnEpoch) + 1
		cell.Status.Aggregator = v1alpha1.CellAggregator{Holder: t.options.Identity, Epoch: epoch}
	})
	if state.version > 0 {
		t.highestOwnEpoch = state.cell.Status.Aggregator.Epoch
	}
	return state, err
}

// join adds the entry of an incarnation, without slots. The slots of an earlier incarnation become unowned.
func (t *cellTakeover) join(ctx context.Context, incarnation *ownership.Incarnation) (startState, error) {
	shard := t.options.Membership
	awaitLeader := func(cell *v1alpha1.Cell) error { return t.holders.awaitLeader(ctx, cell) }
	return t.begin(ctx, writeBackoff(shard.Name()), "join the shards of", awaitLeader, func(cell *v1alpha1.Cell) {
		ownership.AddEntry(cell, shard.Ring(), shard.Name(), incarnation.Holder)
		ownership.SumShards(cell)
	})
}

// begin begins a leadership by compare-and-swap on the Cell: await returns an error while others hold the cell, and change writes what the leadership
// claims. The version of the state is 0 if the Cell was not written.
func (t *cellTakeover) begin(
	ctx context.Context, backoff wait.Backoff, action string, await func(*v1alpha1.Cell) error, change func(*v1alpha1.Cell),
) (startState, error) {
	if !toolscache.WaitForCacheSync(ctx.Done(), t.core.informer.HasSynced) {
		return startState{}, fmt.Errorf("read PodProtectors: %w", context.Cause(ctx))
	}
	state := startState{}
	err := retry.RetryOnConflict(backoff, func() error {
		cell, now, err := t.readCell(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(t.checkCluster(cell), await(cell)); err != nil {
			return err
		}
		state.cell, state.restored = cell, versions.Parse(cell.Status.Aggregator.RestoredVersion)
		if t.isRestored(cell, now) {
			state.restored = now
		}
		change(cell)
		cell.Status.Aggregator.RestoredVersion, cell.Status.Aggregator.SeenVersion = versions.Format(state.restored), versions.Format(now)
		return t.core.client.Status().Update(ctx, cell)
	})
	if apierrors.IsNotFound(err) {
		return startState{}, fmt.Errorf("the core cluster has no Cell %q: create it, or correct --cell", t.options.Cell)
	}
	if err != nil {
		return startState{}, fmt.Errorf("%s Cell %s: %w", action, t.options.Cell, err)
	}
	state.version, state.beganAt = versions.Parse(state.cell.ResourceVersion), t.monotonic()
	state.coreUID, err = t.readCoreUID(ctx)
	return state, err
}

// readCoreUID reads which core this is, for shares and for labels of namespaces. Without the permission the aggregator continues, but takes over
// no shares of lost protectors, and labels no namespaces.
func (t *cellTakeover) readCoreUID(ctx context.Context) (string, error) {
	if t.options.Shares == nil && !t.options.ReportGaps {
		return "", nil
	}
	system := &corev1.Namespace{}
	err := t.core.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		t.log.Error(err, "Failed to read which core this is, so namespaces are not labeled, and shares of lost protectors are not taken over: "+
			"upgrade the chart in the core")
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read which core this is: %w", err)
	}
	return string(system.UID), nil
}

// writeBackoff returns the retry backoff for writes of the Cell, which the other shards write too. The delays depend on the shard's
// name.
func writeBackoff(shard string) wait.Backoff {
	return wait.Backoff{Steps: 8, Duration: time.Duration(5+slot.Of(shard)%16) * time.Millisecond, Factor: 2}
}

// checkCluster returns an error for a Cell of another cluster than the watched one, or else records the cluster in the Cell.
func (t *cellTakeover) checkCluster(cell *v1alpha1.Cell) error {
	if watched := t.options.Cluster; watched != "" {
		if recorded := cell.Status.Cluster; recorded != "" && recorded != watched {
			return fmt.Errorf("the Cell is in cluster %s, but its kubeconfig leads to cluster %s", recorded, watched)
		}
		cell.Status.Cluster = watched
	}
	return nil
}

// readCell reads the Cell, and the current version of the core, from the API server.
func (t *cellTakeover) readCell(ctx context.Context) (*v1alpha1.Cell, uint64, error) {
	return versions.ReadCell(ctx, t.core.reader, t.options.Cell)
}

// isRestored reports whether the core was restored from a backup since the last leadership that recorded a restore. Either this
// process has seen it, or the core is far ahead of the version that its leaders record every few seconds.
func (t *cellTakeover) isRestored(cell *v1alpha1.Cell, now uint64) bool {
	lost, recorded := t.core.restores.LostVersion(), versions.Parse(cell.Status.Aggregator.RestoredVersion)
	if lost > 0 && recorded <= lost {
		return true
	}
	return cell.Status.Aggregator.Epoch > 0 && clusters.ShowsRestore(versions.Seen(cell), now)
}

// highestStoredEpoch returns the highest epoch in the protectors, in case the Cell was deleted and recreated. If a higher epoch
// was written after they were read, the first protector with it ends the leadership, and the next leadership has a higher epoch.
func (t *cellTakeover) highestStoredEpoch() int64 {
	var highest int64
	for _, obj := range t.core.informer.GetStore().List() {
		if p, ok := obj.(*v1alpha1.PodProtector); ok {
			if cell := quota.CellOf(p, t.options.Cell); cell != nil {
				highest = max(highest, cell.Aggregation.Epoch)
			}
		}
	}
	return highest
}
