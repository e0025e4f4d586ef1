package reserve

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// A cell may enter or leave while a charge is pending: then its share decides in place of the protector, or the reverse, in another core
// (rule S6). The charge must reduce the budget of the object that decides, or that object admits another removal instead.

// ChargeLater makes a pending charge of a break-glass removal that no object has reserved.
func (s *Cores) ChargeLater(c removal.Charge, attempt quota.Removal) {
	s.Named(c.Core).Pending.Add(c.Key, NewPendingCharge(c.AttemptFor(attempt), c.Protector))
}

// RoutePendingCharges moves each pending charge of a namespace to the object that decides for its cell, as far as the watches have shown.
func (s *Cores) RoutePendingCharges(namespace string) {
	var candidates []removal.Charge // nil until a charge is found: usually there is none
	for _, from := range s.All {
		for _, key := range from.Pending.Protectors() {
			if key.Namespace != namespace {
				continue
			}
			if candidates == nil {
				candidates = s.protectorsIn(namespace)
			}
			for _, charge := range from.Pending.Of(key) {
				s.routePendingCharge(ProtectorRef{from, key}, charge, candidates)
			}
		}
	}
}

// routePendingCharge moves one pending charge. It drops a charge whose protector was released.
func (s *Cores) routePendingCharge(from ProtectorRef, charge PendingCharge, candidates []removal.Charge) {
	deciding, exists, err := removal.DecidingFor(candidates, &charge.Of, charge.Cell)
	to := s.Ref(deciding)
	log := from.core.log.WithValues("protector", from.String(), "cell", charge.Cell, "pod", charge.PodName)
	switch {
	case err != nil:
		log.V(1).Info("Pending charge waits for the share of its cell", "reason", err.Error())
	case !exists && !s.areSynced():
		log.V(1).Info("Pending charge waits until all core clusters have been read")
	case !exists:
		from.core.Pending.remove(from.key, charge.Token)
		log.Info("Dropped pending charge of a released protector")
	case to != from:
		to.core.Pending.Add(to.key, charge) // before it is removed, so that no decision misses it
		from.core.Pending.remove(from.key, charge.Token)
		log.Info("Moved pending charge to the object that decides for the cell", "to", to.String())
	}
}

// protectorsIn returns all protectors and shares of a namespace, in the states that the watches have shown.
func (s *Cores) protectorsIn(namespace string) (all []removal.Charge) {
	for _, c := range s.All {
		for _, p := range c.States.InNamespace(namespace) {
			all = append(all, removal.Charge{Core: c.Name, Key: client.ObjectKeyFromObject(p), Protector: p})
		}
	}
	return all
}

// areSynced reports whether all cores have been read.
func (s *Cores) areSynced() bool {
	for _, c := range s.All {
		if !c.Synced.Load() {
			return false
		}
	}
	return true
}

// FlushPending writes the pending charges of a protector for which no removal is requested, with the object that decides for their cells.
func (c *Core) FlushPending(ctx context.Context, protector types.NamespacedName) {
	c.routePending(protector.Namespace)
	if len(c.Pending.Of(protector)) == 0 {
		return
	}
	if err := c.reserver.FlushPending(ctx, protector); err == nil && len(c.Pending.Of(protector)) == 0 {
		c.log.Info("Settled pending charges of break-glass removals", "protector", protector)
	}
}
