package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

const (
	// cellOutage is the duration of an outage in which only one cell keeps the floor, without Plan.Outage.
	cellOutage = 10 * time.Second
	// leastStaleAfter is the least staleAfter that the API allows.
	leastStaleAfter = 20 * time.Second
	// raiseTimeout is how long a share may take to rise to the floor.
	raiseTimeout = 15 * time.Second
)

// stormWithoutCell deletes a Cell. The core is killed twice: while the cell leaves, and when no protector has an entry of it. Then all pods of the
// cell fail, so that the other one keeps the floor alone. Afterwards the Cell is created again, and has a share again.
func stormWithoutCell(ctx context.Context, p *play) error {
	leaver, other := p.drawCells()
	failed := func(ctx context.Context) error { return p.failPods(ctx, leaver) }
	cell, leftEarly, err := p.deleteCell(ctx, leaver, other)
	if err != nil {
		return err
	}
	p.outageResult.CellsDeleted++
	whileItLeaves := nothingLost
	if leftEarly != nil { // the storm continues, so that the judge counts what that costs
		whileItLeaves = failed
	}
	if err := errors.Join(p.outliveCore(ctx, other, whileItLeaves), p.stage.heal(ctx)); err != nil {
		return errors.Join(leftEarly, err)
	}
	if err := p.awaitEntry(ctx, cell.Name, func(entry *v1alpha1.PodProtectorCell) error {
		if entry != nil {
			return fmt.Errorf("cell %s has not left: %+v", cell.Name, *entry)
		}
		return nil
	}); err != nil {
		return errors.Join(leftEarly, err)
	}
	p.outageResult.CellsDeleted++
	if err := p.outliveCore(ctx, other, failed); err != nil {
		return errors.Join(leftEarly, err)
	}
	return errors.Join(leftEarly, p.recreateCell(ctx, leaver, cell))
}

// deleteCell deletes a Cell while the aggregator of the other one is cut off from the core, so that the share of the other cell cannot rise to the floor. It
// returns when the cell waits only for that. leftEarly is an error if the cell does not wait.
func (p *play) deleteCell(ctx context.Context, leaver, other int) (cell *v1alpha1.Cell, leftEarly, err error) {
	cell = &v1alpha1.Cell{}
	if err := p.stage.protectors.Get(ctx, client.ObjectKey{Name: p.stage.Cells[leaver].Name}, cell); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(p.cutOff(other), p.stage.protectors.Delete(ctx, cell)); err != nil {
		return nil, nil, err
	}
	err = p.awaitEntry(ctx, cell.Name, func(entry *v1alpha1.PodProtectorCell) error {
		switch {
		case entry == nil:
			leftEarly = fmt.Errorf("cell %s has left, and cell %s has not raised its share", cell.Name, p.stage.Cells[other].Name)
		case entry.Share != nil || len(entry.AdmissionHistory.Buckets) > 0 || entry.Discount != v1alpha1.DiscountDraining:
			return fmt.Errorf("cell %s decides on removals, or has reservations: %+v", cell.Name, *entry)
		}
		return nil
	})
	return cell, leftEarly, err
}

// cutOff cuts the aggregator of a cell off from the core.
func (p *play) cutOff(cell int) error {
	return p.stage.proxies[connection{p.stage.aggregator(p.stage.Workers[cell]), p.stage.Core.Name()}].Cut(proxy.Both)
}

// recreateCell creates a Cell again when it is gone, deploys pods in it, and returns when all cells have shares.
func (p *play) recreateCell(ctx context.Context, cell int, deleted *v1alpha1.Cell) error {
	p.pauseLock.Lock()
	defer p.pauseLock.Unlock()
	again := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: deleted.Name}, Spec: deleted.Spec}
	if err := poll(ctx, func(ctx context.Context) error {
		err := p.stage.protectors.Create(ctx, again)
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("the deletion of Cell %s has not ended: %w", deleted.Name, err)
		}
		return err
	}); err != nil {
		return err
	}
	if err := p.supply(ctx, p.app.Pods/2, p.stage.Cells[cell:cell+1]); err != nil {
		return err
	}
	return poll(ctx, p.checkShares)
}

// stormWithStaleCell cuts the aggregator of a cell off from the core until the cell is discounted, and then kills the core. Then all pods of the cell fail,
// which no other cell learns.
func stormWithStaleCell(ctx context.Context, p *play) error {
	stale, other := p.drawCells()
	name := p.stage.Cells[stale].Name
	if err := errors.Join(p.setStaleness(ctx, name, v1alpha1.WhenStaleDiscount, leastStaleAfter), p.cutOff(stale)); err != nil {
		return err
	}
	if err := p.awaitEntry(ctx, name, func(entry *v1alpha1.PodProtectorCell) error {
		if entry == nil || entry.Discount != v1alpha1.DiscountStale {
			return fmt.Errorf("cell %s is not discounted as stale", name)
		}
		return nil
	}); err != nil {
		return err
	}
	p.outageResult.StaleCells++
	// The storm continues if the share does not rise, so that the judge counts what that costs.
	notRaised := p.awaitFloor(ctx, p.stage.Cells[other].Name)
	if err := p.outliveCore(ctx, other, func(ctx context.Context) error { return p.failPods(ctx, stale) }); err != nil {
		return errors.Join(notRaised, err)
	}
	return errors.Join(notRaised, p.stage.heal(ctx), p.setStaleness(ctx, name, v1alpha1.WhenStaleTrust, time.Minute))
}

// setStaleness sets when and how a silent cell stops counting.
func (p *play) setStaleness(ctx context.Context, name string, when v1alpha1.WhenStale, after time.Duration) error {
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"whenStale":%q,"staleAfter":%q}}`, when, after)
	return p.stage.protectors.Patch(ctx, cell, client.RawPatch(types.MergePatchType, patch))
}

// awaitFloor returns when the share of a cell is the whole floor, and an error if that takes too long.
func (p *play) awaitFloor(ctx context.Context, cell string) error {
	ctx, cancel := context.WithTimeout(ctx, raiseTimeout)
	defer cancel()
	return p.awaitEntry(ctx, cell, func(entry *v1alpha1.PodProtectorCell) error {
		if entry == nil || entry.Share == nil || int(entry.Share.Floor) < p.floor {
			return fmt.Errorf("the share of cell %s is not the floor %d", cell, p.floor)
		}
		return nil
	})
}

// awaitEntry returns when check finds nothing wrong with the entry of a cell in the status, which is nil if there is none.
func (p *play) awaitEntry(ctx context.Context, cell string, check func(*v1alpha1.PodProtectorCell) error) error {
	return poll(ctx, func(ctx context.Context) error {
		entry, err := p.entry(ctx, cell)
		if err != nil {
			return err
		}
		return check(entry)
	})
}

// drawCells returns the cell that a fault is for, and the other one.
func (p *play) drawCells() (cell, other int) {
	cell = p.random.IntN(len(p.stage.Cells))
	return cell, 1 - cell
}

// outliveCore kills the core, calls lost, and lets the storm continue, while new pods add budget in one cell. That cell must admit removals before the core
// returns.
func (p *play) outliveCore(ctx context.Context, cell int, lost func(context.Context) error) error {
	_, end, err := killCore(p)
	if err != nil {
		return err
	}
	began := time.Since(p.start)
	if err := errors.Join(lost(ctx), p.supplyFor(ctx, p.outage(cellOutage), p.stage.Cells[cell:cell+1])); err != nil {
		return err
	}
	if _, err := p.firstLocalAdmission(p.stage.Cells[cell], began); err != nil {
		return err
	}
	return end(ctx)
}

// nothingLost is a loss of nothing but the core.
func nothingLost(context.Context) error { return nil }
