package review

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// maxVerificationsPerSecond limits, per cell, how many pod reads the webhook makes to verify unproven callers. Each
// read is of metadata only, and the API server answers it from its watch cache. A list counts as one read for each podsPerRead pods.
const maxVerificationsPerSecond = 1000

// verificationTimeout limits one such read, including the wait for the rate limiter. A cell that does not answer in that
// time counts as unreadable.
const verificationTimeout = 2 * time.Second

// verifier compares the pods of reviews with those of the cells, at a limited rate.
type verifier struct {
	cells  *Cells
	tracer *tracing.Tracer
	lists  podLists

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by cell
}

// limit returns the rate limiter of a cell.
func (v *verifier) limit(cell string) *rate.Limiter {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.limits == nil {
		v.limits = map[string]*rate.Limiter{}
	}
	if v.limits[cell] == nil {
		v.limits[cell] = rate.NewLimiter(maxVerificationsPerSecond, maxVerificationsPerSecond)
	}
	return v.limits[cell]
}

// verify denies a removal requested by an unproven caller, unless its cell has the pod with the UID and the labels of
// the review. Otherwise any client that reaches the webhook could consume the budgets of pods that do not exist. It
// returns nil when the removal may be charged. The authenticated API server of the cell needs no such read, since it
// has just read the pod itself. An unreadable cell is no reason to deny: a reservation without a removal ends with
// the admission deadline.
func (v *verifier) verify(ctx context.Context, cell string, r removal.Request, charges []removal.Charge) *removal.Denial {
	if !reviews.IsFromUnprovenCaller(ctx) || r.Operation == v1alpha1.OperationEvict || r.IsBreakGlass() {
		return nil // podReader has read the pod of an eviction or of a break-glass removal from the cell
	}
	objects, err := v.cells.metadata(cell)
	if err != nil {
		return nil
	}
	timeout := verificationTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/4)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, span := v.tracer.Call(ctx, tracing.SpanReadPod)
	defer span.End()
	if v.shows(ctx, cell, r, charges) {
		return nil
	}
	pods := podsOf(objects, r.Namespace)
	// The watch cache may lag behind. The second read, from etcd, happens only if the first one seems to refute the
	// review.
	var denial *removal.Denial
	for _, version := range []string{"0", ""} {
		if err := v.limit(cell).Wait(ctx); err != nil {
			return &removal.Denial{Cause: removal.CauseUnreadPod, Detail: "too many unauthenticated requests for this cell: " + err.Error()}
		}
		pod, err := pods.Get(ctx, r.PodName, metav1.GetOptions{ResourceVersion: version})
		switch {
		case apierrors.IsNotFound(err) || err == nil && pod.UID != r.Pod.UID:
			denial = &removal.Denial{Cause: removal.CauseNoPod}
		case err != nil:
			tracing.RecordError(span, err)
			return nil
		case !maps.Equal(pod.Labels, r.Pod.Labels):
			denial = &removal.Denial{Cause: removal.CauseChangedPod}
		default:
			return nil
		}
	}
	return denial
}
