package chaos

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// share returns the share of the application's protector in a cell.
func (p *play) share(ctx context.Context, cell int) (*v1alpha1.PodProtector, error) {
	list := &v1alpha1.PodProtectorList{}
	if err := p.stage.shares[cell].List(ctx, list, client.InNamespace(p.app.Namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if of := list.Items[i].Spec.ShareOf; of != nil && of.Name == application {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("cell %s has no share", p.stage.Cells[cell].Name)
}

// checkShares returns an error unless the protector records an open share with budget for each cell, and all shares together are the floor.
func (p *play) checkShares(ctx context.Context) error {
	protector, err := p.protector(ctx)
	if err != nil {
		return err
	}
	sum := 0
	for _, cell := range protector.Status.Cells {
		if cell.Share == nil {
			return fmt.Errorf("the status has no share of cell %s", cell.CellID)
		}
		sum += int(cell.Share.Floor)
	}
	if sum != p.floor {
		return fmt.Errorf("all shares are %d, want the floor %d", sum, p.floor)
	}
	for i, cell := range p.stage.Cells {
		share, err := p.share(ctx, i)
		if err != nil {
			return err
		}
		if share.Spec.ShareOf.Closed || share.Status.DisruptionsAllowed == 0 {
			return fmt.Errorf("the share of cell %s is closed or has no budget: %+v, %+v", cell.Name, share.Spec.ShareOf, share.Status.Summary)
		}
	}
	return nil
}
