package shares

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// enqueueShares enqueues the protectors of all shares, since a protector may have been released while no leadership watched.
func (k *Keeper) enqueueShares(ctx context.Context) {
	all := &v1alpha1.PodProtectorList{}
	if err := k.Shares.List(ctx, all); err != nil {
		k.Log.Error(err, "Failed to list the shares of the cell")
		return
	}
	for i := range all.Items {
		if of := all.Items[i].Spec.ShareOf; of != nil && of.Cell == k.Cell {
			k.Queue.Add(types.NamespacedName{Namespace: all.Items[i].Namespace, Name: of.Name})
		}
	}
}

// Watch enqueues the protector of each share of a cell that changes, with the current keeper; nil while another process leads.
func Watch(ctx context.Context, workers cluster.Cluster, cell string, current func() *Keeper) error {
	err := workers.GetFieldIndexer().IndexField(ctx, &v1alpha1.PodProtector{}, shareOfName, func(o client.Object) []string {
		if p, ok := o.(*v1alpha1.PodProtector); ok && p.Spec.ShareOf != nil {
			return []string{p.Spec.ShareOf.Name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index shares: %w", err)
	}
	informer, err := workers.GetCache().GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch shares: %w", err)
	}
	changed := func(old, obj any) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		share, ok := obj.(*v1alpha1.PodProtector)
		if k := current(); ok && k != nil && share.Spec.ShareOf != nil && share.Spec.ShareOf.Cell == cell && k.Owns(share.Namespace) {
			k.shareChanged(old, share)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(nil, obj) }, UpdateFunc: changed, DeleteFunc: func(obj any) { changed(nil, obj) },
	})
	return err
}

// shareChanged enqueues the protector of a share: at once if the share wants budget, otherwise after the aggregation rate.
func (k *Keeper) shareChanged(old any, share *v1alpha1.PodProtector) {
	key := types.NamespacedName{Namespace: share.Namespace, Name: share.Spec.ShareOf.Name}
	before, ok := old.(*v1alpha1.PodProtector)
	if !ok || before.Status.Wanted != share.Status.Wanted || before.Generation != share.Generation {
		k.Queue.Add(key)
		return
	}
	k.Queue.AddAfter(key, share.Spec.AdmissionHistory.AggregationRateOrDefault())
}
