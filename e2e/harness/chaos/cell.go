package chaos

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cellHistory reads one cell's etcd, incarnation by incarnation.
type cellHistory struct {
	cell             string
	etcd             *clientv3.Client
	start            time.Time
	pastIncarnations []incarnation
	restorePoints    []restorePoint

	// The current incarnation, from its first revision.
	clock *revisionClock
	first []revision
	from  int64
	began time.Duration
}

// begin reads the current pods. The first read of every cell comes before any removal of its incarnation.
func (h *cellHistory) begin(ctx context.Context, namespace string) error {
	var err error
	if h.first, h.from, err = podsAt(ctx, h.etcd, namespace); err != nil {
		return fmt.Errorf("cell %s: %w", h.cell, err)
	}
	h.began = time.Since(h.start)
	h.clock = startRevisionClock(context.WithoutCancel(ctx), h.etcd, h.start)
	return nil
}

// end reads the changes that were stored since begin. No client may write any more to an incarnation that a restore ends.
func (h *cellHistory) end(ctx context.Context, namespace string) error {
	changes, err := podsAfter(ctx, h.etcd, namespace, h.from)
	if err != nil {
		return fmt.Errorf("cell %s: %w", h.cell, err)
	}
	h.clock.stopReading()
	h.pastIncarnations = append(h.pastIncarnations, incarnation{
		first: h.first, later: changes, bounds: h.clock.bounds(h.began, time.Since(h.start)),
	})
	return nil
}

// beginHistories reads the current pods of all cells.
func (p *play) beginHistories(ctx context.Context) error {
	for i, etcd := range p.stage.etcds {
		h := &cellHistory{cell: p.stage.Cells[i].Name, etcd: etcd, start: p.start}
		if err := h.begin(ctx, p.app.Namespace); err != nil {
			return err
		}
		h.began = 0 // nothing was removed before
		p.histories = append(p.histories, h)
	}
	return nil
}

// evidence ends the records and reads what all cells stored.
func (p *play) evidence(ctx context.Context) (Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	evidence := Evidence{Floor: p.floor, Requests: p.journal.Requests(), Outages: p.outages, FaultBegan: p.faultBegan, FaultEnded: p.faultEnded}
	for _, h := range p.histories {
		if err := h.end(ctx, p.app.Namespace); err != nil {
			return Evidence{}, err
		}
		truths, revived := compose(h.cell, h.pastIncarnations, h.restorePoints)
		evidence.Truths = append(evidence.Truths, truths...)
		evidence.Requests = revived.rename(h.cell, evidence.Requests)
	}
	return evidence, nil
}
