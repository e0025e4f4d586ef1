package shares

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// errOtherPods is the error of a Cell that differs from that of another core.
var errOtherPods = errors.New("the Cell of that name in the cluster of the cell has other namespaces or another podSelector, so the cell gets no shares: " +
	"rename one of the Cells, or delete that in the cluster of the cell if no core has such a Cell any more")

// copiedCell reads the copy of the Cell in the cluster of the cell, by which the aggregator counts for shares. errOtherPods is returned if it has other
// pods than the Cell, because several cores have a Cell of that name.
func (k *Keeper) copiedCell(ctx context.Context) (*v1alpha1.Cell, error) {
	copied, cell := &v1alpha1.Cell{}, k.Current()
	if err := k.Shares.Get(ctx, client.ObjectKey{Name: k.Cell}, copied); err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(cell.Spec.Namespaces, copied.Spec.Namespaces) || !equality.Semantic.DeepEqual(cell.Spec.PodSelector, copied.Spec.PodSelector) {
		return nil, fmt.Errorf("compare Cell %s: %w", k.Cell, errOtherPods)
	}
	return copied, nil
}

// syncCell copies the settings of the Cell. The copy settles exactly, and has the longest deadline of the Cells of all cores, which is safe for all.
// Concurrent calls share one: workers that create the copy at once would meet each other's.
func (k *Keeper) syncCell(ctx context.Context) error {
	_, err, _ := k.syncing.Do("", func() (any, error) { return nil, k.syncCellOnce(ctx) })
	return err
}

func (k *Keeper) syncCellOnce(ctx context.Context) error {
	cell := k.Current()
	deadline := cell.Spec.AdmissionDeadlineOrDefault()
	copied, err := k.copiedCell(ctx)
	switch {
	case apierrors.IsNotFound(err):
		err := k.Shares.Create(ctx, &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: k.Cell}, Spec: v1alpha1.CellSpec{
			Namespaces: cell.Spec.Namespaces, PodSelector: cell.Spec.PodSelector, Settlement: v1alpha1.SettlementExact,
			AdmissionDeadline: &metav1.Duration{Duration: deadline},
		}})
		return client.IgnoreAlreadyExists(err) // the cache does not show it yet
	case err != nil:
		return err
	case deadline <= copied.Spec.AdmissionDeadlineOrDefault() && copied.Spec.Settlement == v1alpha1.SettlementExact:
		return nil
	}
	copied.Spec.Settlement = v1alpha1.SettlementExact
	copied.Spec.AdmissionDeadline = &metav1.Duration{Duration: max(deadline, copied.Spec.AdmissionDeadlineOrDefault())}
	return k.Shares.Update(ctx, copied)
}

// syncCellInterval is how often the settings of the Cell are compared with those in the cluster of the cell.
const syncCellInterval = 10 * time.Second

// Run keeps the settings of the Cell up to date in the cluster of the cell, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	k.enqueueShares(ctx)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := k.syncCell(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "Failed to copy the settings of the Cell to its cluster, for shares")
		}
	}, syncCellInterval)
}
