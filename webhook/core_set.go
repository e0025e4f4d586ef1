package webhook

import (
	"context"
	"errors"
	"fmt"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// coreSet is the set of core clusters of a webhook.
type coreSet []*core

// named returns the core with a name; nil if there is none.
func (s coreSet) named(name string) *core {
	for _, c := range s {
		if c.name == name {
			return c
		}
	}
	return nil
}

// knownErr returns the error that requests to one of the cores are known to get, with the name of the core; nil if there is none.
func (s coreSet) knownErr() error {
	for _, c := range s {
		switch err := c.reserver.probe.knownErr(); {
		case errors.Is(err, errRejected):
			return fmt.Errorf("core cluster %q: %w", c.name, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// forEvents returns the core most likely to accept events: one that has been read, or else any.
func (s coreSet) forEvents() *core {
	for _, core := range s {
		if core.synced.Load() {
			return core
		}
	}
	if len(s) > 0 {
		return s[0]
	}
	return nil
}

// ref returns the reference of the protector that is charged.
func (s coreSet) ref(c removal.Charge) protectorRef { return protectorRef{s.named(c.Core), c.Key} }

// protectorRef identifies a protector of a core.
type protectorRef struct {
	core *core
	key  types.NamespacedName
}

func (r protectorRef) String() string { return r.core.name + "/" + r.key.String() }

// Budget implements wake.Protector. It returns how many removals a protector would admit now. A protector that was released admits all.
func (r protectorRef) Budget(ctx context.Context) int {
	newest, lost, err := r.core.states.newest(ctx, r.key)
	switch {
	case apierrors.IsNotFound(err):
		return math.MaxInt
	case err != nil, lost:
		return 0
	}
	return quota.Allowed(newest)
}
