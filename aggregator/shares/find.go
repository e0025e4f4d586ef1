package shares

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// isOfThisCore reports whether a share is certainly one of this core, and not of another one with a protector of the same name. Versions without
// shareOf.core did not record it.
func (k *Keeper) isOfThisCore(of *v1alpha1.ShareOf) bool {
	return of.Core != "" && of.Core == k.CoreUID
}

// find returns the share of a protector, or of a lost one of its name, as r shows it; nil if there is none. After several losses and restores, the
// protector may not know the UID that the share has: it takes over every share of its core whose protector was not released. A restored cluster may
// bring back a share that the protector has replaced since. The webhook charges all of them, so find ends those that are not needed.
func (k *Keeper) find(ctx context.Context, r client.Reader, p *v1alpha1.PodProtector) (*v1alpha1.PodProtector, error) {
	all, err := k.sharesOf(ctx, r, client.ObjectKeyFromObject(p))
	if err != nil {
		return nil, err
	}
	var found []*v1alpha1.PodProtector
	for i := range all.Items {
		share := &all.Items[i]
		isShareOf := quota.IsShareOf(share.Spec.ShareOf, p)
		if share.Spec.ShareOf.Cell != k.Cell || !isShareOf && !k.isOfThisCore(share.Spec.ShareOf) {
			continue
		}
		if !isShareOf {
			if released, err := k.releaseShare(ctx, share); err != nil {
				return nil, err
			} else if released {
				continue
			}
		}
		found = append(found, share)
	}
	if len(found) == 0 {
		return nil, nil
	}
	rank := func(share *v1alpha1.PodProtector) (rank int) { // the lowest is kept
		if share.Spec.ShareOf.Closed {
			rank += 2
		}
		if share.Spec.ShareOf.UID != string(p.UID) {
			rank++
		}
		return rank
	}
	slices.SortFunc(found, func(a, b *v1alpha1.PodProtector) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	if err := k.endSurplus(ctx, found[0], found[1:]); err != nil {
		return nil, err
	}
	if quota.IsShareOf(found[0].Spec.ShareOf, p) {
		return found[0], nil
	}
	return found[0], k.takeOver(ctx, p, found[0])
}

// endSurplus makes the next write by which surplus shares end, and returns a conflict after it. The share that is kept gets the highest floor first, because
// the protector may record it (rule S2). A share ends when it is closed, and all its reservations are settled.
func (k *Keeper) endSurplus(ctx context.Context, kept *v1alpha1.PodProtector, surplus []*v1alpha1.PodProtector) error {
	for _, share := range surplus {
		own, floor := quota.CellOf(share, k.Cell), floorOfShare(share)
		var err error
		switch {
		case floor > floorOfShare(kept):
			err = k.setFloor(ctx, kept, floor)
		case !share.Spec.ShareOf.Closed:
			share.Spec.ShareOf.Closed = true
			err = k.setFloor(ctx, share, floor)
		case own == nil || quota.Open(&own.AdmissionHistory) == 0:
			err = k.delete(ctx, share)
		default:
			continue
		}
		return cmp.Or(err, errShareOutdated(share.Name, "it had a surplus share"))
	}
	return nil
}

// takeOver makes a lost protector's share that of a protector, unless that is outdated itself.
func (k *Keeper) takeOver(ctx context.Context, p, share *v1alpha1.PodProtector) error {
	live := &v1alpha1.PodProtector{}
	if err := k.Core.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil {
		return err
	}
	if live.UID != p.UID {
		return errShareOutdated(p.Name, "it was recreated")
	}
	return k.followSpec(ctx, p, share)
}

// shareOfName is the field of shares by which caches and API servers find those of a protector's name.
const shareOfName = "spec.shareOf.name"

// sharesOf returns the shares of all protectors of a name, of all cells and cores.
func (k *Keeper) sharesOf(ctx context.Context, r client.Reader, key types.NamespacedName) (*v1alpha1.PodProtectorList, error) {
	all := &v1alpha1.PodProtectorList{}
	err := r.List(ctx, all, client.InNamespace(key.Namespace), client.MatchingFields{shareOfName: key.Name})
	if apierrors.IsNotFound(err) { // no share is outdated: no retry helps, and the pods that die must be counted (rule S4)
		return nil, errNotServed
	}
	return all, err
}

// errNotServed is the error of a cluster without the CRD of shares.
var errNotServed = errors.New("the cluster of the cell does not serve PodProtectors: apply the CRDs again")

// errShareOutdated returns a conflict, after which the caller reads again.
func errShareOutdated(name, reason string) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), name, errors.New(reason))
}

// Release deletes the shares of a protector that does not exist any more, if it was released. A share whose protector was lost stays in force
// until the protector exists again (rule 10).
func (k *Keeper) Release(ctx context.Context, key types.NamespacedName) error {
	if k == nil {
		return nil
	}
	all, err := k.sharesOf(ctx, k.Shares, key)
	if err != nil {
		return fmt.Errorf("read the shares of the cell: %w", err)
	}
	for i := range all.Items {
		if of := all.Items[i].Spec.ShareOf; of.Cell != k.Cell || of.Core != "" && of.Core != k.CoreUID {
			continue
		}
		if _, err := k.releaseShare(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// releaseShare deletes a share if its protector was released. It reports whether that is so.
func (k *Keeper) releaseShare(ctx context.Context, share *v1alpha1.PodProtector) (released bool, err error) {
	key := types.NamespacedName{Namespace: share.Namespace, Name: share.Spec.ShareOf.Name}
	released, err = k.wasReleased(ctx, key, share.Spec.ShareOf)
	if err == nil && released {
		err = k.delete(ctx, share)
	}
	if err != nil {
		return false, fmt.Errorf("release the share of the cell: %w", err)
	}
	return released, nil
}

// wasReleased reports whether the protector of a share was released, by live reads of the core. Only a record of the release proves that of a share
// that may be of another core.
func (k *Keeper) wasReleased(ctx context.Context, key types.NamespacedName, of *v1alpha1.ShareOf) (bool, error) {
	p := &v1alpha1.PodProtector{}
	err := k.Core.Get(ctx, key, p)
	switch {
	case err == nil && quota.IsShareOf(of, p):
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	case !of.Held && k.isOfThisCore(of):
		return true, nil
	}
	last := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(of.UID)}}
	return clusters.WasReleased(ctx, k.Core, last)
}
