package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// A cell may enter or leave while a charge is pending: then its share decides in place of the protector, or the reverse, in another core
// (rule S6). The charge must reduce the budget of the object that decides, or that object admits another removal instead.

// chargeLater makes a pending charge of a break-glass removal that no object has reserved.
func (s coreSet) chargeLater(c removal.Charge, attempt quota.Removal) {
	s.named(c.Core).pendingCharges.add(c.Key, newPendingCharge(c.AttemptFor(attempt), c.Protector))
}

// routePendingCharges moves each pending charge of a namespace to the object that decides for its cell, as far as the watches have shown.
func (s coreSet) routePendingCharges(namespace string) {
	var candidates []removal.Charge // nil until a charge is found: usually there is none
	for _, from := range s {
		for _, key := range from.pendingCharges.protectors() {
			if key.Namespace != namespace {
				continue
			}
			if candidates == nil {
				candidates = s.protectorsIn(namespace)
			}
			for _, charge := range from.pendingCharges.of(key) {
				s.routePendingCharge(protectorRef{from, key}, charge, candidates)
			}
		}
	}
}

// routePendingCharge moves one pending charge. It drops a charge whose protector was released.
func (s coreSet) routePendingCharge(from protectorRef, charge pendingCharge, candidates []removal.Charge) {
	deciding, exists, err := removal.DecidingFor(candidates, &charge.of, charge.Cell)
	to := s.ref(deciding)
	log := from.core.log.WithValues("protector", from.String(), "cell", charge.Cell, "pod", charge.PodName)
	switch {
	case err != nil:
		log.V(1).Info("Pending charge waits for the share of its cell", "reason", err.Error())
	case !exists && !s.areSynced():
		log.V(1).Info("Pending charge waits until all core clusters have been read")
	case !exists:
		from.core.pendingCharges.remove(from.key, charge.Token)
		log.Info("Dropped pending charge of a released protector")
	case to != from:
		to.core.pendingCharges.add(to.key, charge) // before it is removed, so that no decision misses it
		from.core.pendingCharges.remove(from.key, charge.Token)
		log.Info("Moved pending charge to the object that decides for the cell", "to", to.String())
	}
}

// protectorsIn returns all protectors and shares of a namespace, in the states that the watches have shown.
func (s coreSet) protectorsIn(namespace string) (all []removal.Charge) {
	for _, c := range s {
		for _, p := range c.states.inNamespace(namespace) {
			all = append(all, removal.Charge{Core: c.name, Key: client.ObjectKeyFromObject(p), Protector: p})
		}
	}
	return all
}

// areSynced reports whether all cores have been read.
func (s coreSet) areSynced() bool {
	for _, c := range s {
		if !c.synced.Load() {
			return false
		}
	}
	return true
}

// flushPending writes the pending charges of a protector for which no removal is requested, with the object that decides for their cells.
func (c *core) flushPending(ctx context.Context, protector types.NamespacedName) {
	c.routePending(protector.Namespace)
	if len(c.pendingCharges.of(protector)) == 0 {
		return
	}
	if err := c.reserver.flushPending(ctx, protector); err == nil && len(c.pendingCharges.of(protector)) == 0 {
		c.log.Info("Settled pending charges of break-glass removals", "protector", protector)
	}
}
