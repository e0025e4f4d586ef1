package aggregator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// initialCount is a live list for pods that a protector has not been counted by yet, not with its current spec, or from a later state of the
// cell than the snapshot shows.
//
// Pods that a protector does not cover are removed without a reservation. A lagging snapshot still shows them, and counting them would
// create budget that does not exist. So a first count also uses a live list, which was read after the protector was seen. A pod that is
// not alive in it, or has changed since the snapshot, is not counted until the snapshot shows that. So the count is not older than the list:
// the pods that it includes are available in both.
type initialCount struct {
	uid  types.UID
	spec string
	// selector is that of the target, if the spec names one.
	selector string
	// inTransition reports that it is for counts that an earlier spec restricts. When that restriction ends, the aggregator must look
	// again for pods that were removed without a reservation.
	inTransition bool
	live         snapshot.LiveRead
}

func (c *initialCount) isFor(p *v1alpha1.PodProtector, target *v1alpha1.Target, inTransition bool) bool {
	return c != nil && c.uid == p.UID && c.inTransition == inTransition && c.spec == quota.CountedSpec(&p.Spec) && c.selector == selectorOf(target)
}

// selectorOf returns the selector of a target as text; no target selects no pod.
func selectorOf(target *v1alpha1.Target) string {
	if target == nil {
		return ""
	}
	return target.Selector
}

// initialCounts has the protectors that are counted for the first time, until the snapshot is enough to do so. It is safe for concurrent
// use. One worker at a time counts a protector.
type initialCounts struct {
	cell      string
	ownership *ownership.Ownership
	informer  toolscache.SharedIndexInformer
	snapshot  *snapshot.Snapshot
	reads     *snapshot.AliveReads
	counts    ownership.Map[*initialCount]
}

// expect records the protectors of some namespaces that are known before the pods are listed: that list is recent enough for them.
func (c *initialCounts) expect(in func(namespace string) bool) {
	for _, obj := range c.informer.GetStore().List() {
		p, ok := obj.(*v1alpha1.PodProtector)
		if ok && in(p.Namespace) && !clusters.IsStub(p) && p.Spec.TargetRef == nil && !isCounted(p, c.cell, nil) {
			c.counts.Set(client.ObjectKeyFromObject(p), &initialCount{uid: p.UID, spec: quota.CountedSpec(&p.Spec)})
		}
	}
}

// isCounted reports whether a cell's pods were counted with the spec and the target of a protector.
func isCounted(p *v1alpha1.PodProtector, cellID string, target *v1alpha1.Target) bool {
	cell := quota.CellOf(p, cellID)
	return cell != nil && !cell.Aggregation.Void && cell.Aggregation.CountedSpec == quota.CountedSpec(&p.Spec) &&
		selectorOf(cell.Aggregation.Target) == selectorOf(target)
}

// mustCount reports whether a protector has to be counted again in a cell, as far as its spec shows.
func mustCount(p *v1alpha1.PodProtector, cellID string) bool {
	cell := quota.CellOf(p, cellID)
	return cell == nil || !isCounted(p, cellID, cell.Aggregation.Target)
}

// laterVersion returns the version of the stored counts if they are of a later state of the cell than the snapshot shows, and not of this
// leadership; otherwise 0 (rule 5). A leader that was paused, or has not noticed yet that it was deposed, continues until this one has written, and may
// settle a reservation by a state that the new leader's stream has not reached. Replacing its count by the older one would count the
// pod again, without its reservation. The counts of a share continue those of its protector, which another stream has counted, and the reverse. A
// restored core issues an epoch a second time, so a former leader may have the same epoch as this one.
func (c *initialCounts) laterVersion(p *v1alpha1.PodProtector) uint64 {
	cell := quota.CellOf(p, c.cell)
	if cell == nil {
		return 0
	}
	stored := &cell.Aggregation
	own := stored.Epoch == c.ownership.EpochOf(p.Namespace) && stored.Holder == c.ownership.Holder()
	counted := max(versions.Parse(stored.SnapshotVersion), versions.Parse(stored.SettledVersion))
	if own || c.snapshot.HasReached(counted) {
		return 0
	}
	return counted
}

// readFor returns the live list that a protector's count uses; nil if the snapshot is enough. The snapshot is not enough if the stored counts are of a
// transition and the new ones are not, or the reverse, or if they are of a later version; isForced asks for a new list in any case. A live list that is
// older than they are shows that the cell went backwards, as after a restore of its etcd, which makes them void.
func (c *initialCounts) readFor(
	ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target, inTransition, isForced bool,
) (*snapshot.LiveRead, error) {
	key, later := client.ObjectKeyFromObject(p), c.laterVersion(p)
	if isForced {
		c.forget(key)
	}
	initial := c.counts.Get(key)
	counted := !isForced && later == 0 && isCounted(p, c.cell, target) && quota.CellOf(p, c.cell).Aggregation.InTransition == inTransition
	if initial != nil && counted && (!initial.isFor(p, target, inTransition) || c.snapshot.HasReached(initial.live.Version)) {
		c.forget(key)
		initial = nil
	}
	switch {
	case initial.isFor(p, target, inTransition) && initial.live.Version >= later:
		return &initial.live, nil
	case counted:
		return nil, nil
	}
	pods, _ := selectors.CountedCoverageOf(&p.Spec, target)
	if !pods.CanMatch() {
		return nil, nil
	}
	live, err := c.reads.Read(ctx, key.Namespace, pods.Key())
	if err != nil {
		return nil, fmt.Errorf("count for the first time: %w", err)
	}
	c.counts.Set(key, &initialCount{uid: p.UID, spec: quota.CountedSpec(&p.Spec), selector: selectorOf(target), inTransition: inTransition, live: live})
	return &live, nil
}

// forget makes the next count read a new list.
func (c *initialCounts) forget(key types.NamespacedName) { c.counts.Forget(key) }
