package aggregator

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Otherwise, with a hundred thousand protectors that were not counted yet, a process could not stop in time to release
// its Lease.
func TestEndedLeadershipLeavesQueuedKeys(t *testing.T) {
	w := newSimulatedCell(1, 4)
	w.lead()
	leader := w.newest().leadership
	leader.enqueuer.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	for n := range 3 {
		leader.enqueuer.queue.Add(types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("p-", n)})
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	leader.enqueuer.queue.ShutDown()
	leader.runWorker(ctx)
	if left := leader.enqueuer.queue.Len(); left != 2 {
		t.Errorf("%d of 3 keys are still queued, want 2", left)
	}
}
