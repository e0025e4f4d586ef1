package generator

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// retries enqueues sources again that have pending decreases, or that the generator has changed.
type retries struct {
	queue workqueue.TypedRateLimitingInterface[policy.Ref]
}

// source connects the retries to the controller's queue.
func (r *retries) source() source.TypedSource[policy.Ref] {
	return source.TypedFunc[policy.Ref](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[policy.Ref]) error {
		r.queue = queue
		return nil
	})
}

func (r *retries) retryAfter(ref policy.Ref, delay time.Duration) {
	if r.queue != nil && delay > 0 {
		r.queue.AddAfter(ref, delay)
	}
}
