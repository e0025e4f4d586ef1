package reserve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Cores are the core clusters of a webhook.
type Cores struct {
	All []*Core

	log logr.Logger
	// givingBack tracks the reservations that are being given back.
	givingBack sync.WaitGroup
}

// NewCores connects the core clusters of a webhook, which move pending charges between them.
func NewCores(log logr.Logger, all ...*Core) *Cores {
	s := &Cores{All: all, log: log}
	for _, c := range all {
		c.routePending = s.RoutePendingCharges
	}
	return s
}

// Wait waits until no reservation is being given back, and ends the escrows. Call it when no removal is being decided any more.
func (s *Cores) Wait() {
	s.givingBack.Wait()
	for _, c := range s.All {
		c.reserver.escrows.close()
	}
}

// MayEscrow reports whether this replica or another one may have reserved in advance for a removal: that is budget too, since the holder gives it up.
func (s *Cores) MayEscrow(charges []removal.Charge, attempt quota.Removal) bool {
	if len(charges) != 1 || charges[0].Vanished {
		return false
	}
	c := &charges[0]
	escrows, cell := s.Named(c.Core).reserver.escrows, quota.CellOf(c.Protector, attempt.Cell)
	return cell != nil && quota.Escrowed(&cell.AdmissionHistory) > 0 && escrows.isFor(&historyOp{removal: c.AttemptFor(attempt)})
}

// Ready returns an error while the protectors or Cells of a core have not been read. Until then no removal can be decided.
func (s *Cores) Ready() error {
	for _, c := range s.All {
		if !c.Synced.Load() {
			return fmt.Errorf("PodProtectors of core cluster %q are not read yet", c.Name)
		}
		if c.Cells != nil && !c.Cells.HasSynced() {
			return fmt.Errorf("the Cells of core cluster %q are not read yet", c.Name)
		}
	}
	return nil
}

// Named returns the core with a name; nil if there is none.
func (s *Cores) Named(name string) *Core {
	for _, c := range s.All {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// KnownErr returns the error that requests to one of the cores are known to get, with the name of the core; nil if there is none.
func (s *Cores) KnownErr() error {
	for _, c := range s.All {
		switch err := c.reserver.probe.knownErr(); {
		case errors.Is(err, errRejected):
			return fmt.Errorf("core cluster %q: %w", c.Name, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// Check returns the denial that Reserve would return for a core that is known not to answer, or not to accept the credentials, before any request
// is sent.
func (s *Cores) Check(charges []removal.Charge) *removal.Denial {
	for i, c := range charges {
		if err := s.Named(c.Core).reserver.probe.knownErr(); err != nil && !c.Vanished {
			return denialOf(&charges[i], err)
		}
	}
	return nil
}

// Ref returns the reference of a protector.
func (s *Cores) Ref(c removal.Charge) ProtectorRef { return ProtectorRef{s.Named(c.Core), c.Key} }

// ProtectorRef identifies a protector of a core.
type ProtectorRef struct {
	core *Core
	key  types.NamespacedName
}

func (r ProtectorRef) String() string { return r.core.Name + "/" + r.key.String() }

// Budget implements wake.Protector. It returns how many removals a protector would admit now. A protector that was released admits all.
func (r ProtectorRef) Budget(ctx context.Context) int {
	newest, lost, err := r.core.States.newest(ctx, r.key)
	switch {
	case apierrors.IsNotFound(err):
		return math.MaxInt
	case err != nil, lost:
		return 0
	}
	return quota.Allowed(newest)
}
