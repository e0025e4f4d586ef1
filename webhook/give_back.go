package webhook

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// reservation is one that a request has made, joined, or may have made with a protector.
type reservation struct {
	protector protectorRef
	claim     *quota.Claim
	// byPeer reports that another replica has made it.
	byPeer bool
}

// returner gives reservations back to their protectors.
type returner struct {
	metrics *metrics
	log     logr.Logger
	// background tracks the reservations that are still being given back.
	background sync.WaitGroup
}

// giveBack gives reservations back in the background, because the time of the caller is usually almost over.
func (b *returner) giveBack(ctx context.Context, reserved []reservation, attempt quota.Removal) {
	for _, r := range reserved {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviews.GiveBackTimeout)
		b.background.Go(func() {
			defer cancel()
			op := historyOp{kind: opGiveBack, removal: attempt, claim: r.claim, byPeer: r.byPeer}
			result, err := r.protector.core.reserver.giveBack(ctx, r.protector.key, op)
			if result.kind == resultGaveBack {
				b.metrics.givenBack.WithLabelValues(r.protector.core.name).Inc()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				b.log.Error(err, "Could not give reservation back, it stays until the admission deadline", "protector", r.protector.String(), "pod", attempt.PodName)
			}
		})
	}
}
