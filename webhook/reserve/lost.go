package reserve

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// lastLost returns the last state of a protector that no longer exists; nil when a client has released it. It relies
// on the watch, so it may return a protector that was released a moment ago, until the watch has shown the release. That holds for one that
// terminates as well: the core may have been restored to a state before its deletion.
func (s *States) lastLost(key types.NamespacedName) *v1alpha1.PodProtector {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if k, ok := s.byName[key]; ok && clusters.MayBeLost(k.last) {
		return k.last
	}
	return nil
}

// HandleDelete records that a protector no longer exists. deleted is its last state or, if the watch was interrupted, the last
// state seen.
func (s *States) HandleDelete(deleted any) {
	last, _ := deleted.(*v1alpha1.PodProtector)
	isLost := clusters.WasLost(last)
	if tombstone, unwatched := deleted.(toolscache.DeletedFinalStateUnknown); unwatched {
		last, _ = tombstone.Obj.(*v1alpha1.PodProtector)
		isLost = clusters.MayBeLost(last) // until recheckOneLost has read the record of its release
	}
	if isLost {
		s.markLost(last)
		return
	}
	if key, err := toolscache.DeletionHandlingObjectToName(deleted); err == nil {
		s.Drop(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	}
}

// markLost keeps a protector in force that was deleted without being released (rule 10).
func (s *States) markLost(last *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(last)
	s.SetCoverage(last)
	s.mu.Lock()
	k := s.byName[key]
	k.lost = true
	s.byName[key] = k
	s.mu.Unlock()
	s.log.Info("PodProtector was deleted without being released, refusing its removals until it is recreated",
		"protector", key, "uid", last.UID)
	s.LostQueue.Add(key)
}

// lostRecheckInterval is the interval at which the webhook checks again whether a lost protector was released.
const lostRecheckInterval = time.Minute

// LostCount returns the number of lost protectors: those in force although they no longer exist.
func (s *States) LostCount() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	for _, k := range s.byName {
		if k.lost {
			n++
		}
	}
	return n
}

func newLostQueue() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 5*time.Second))
}

// RecheckLost finds out, until ctx ends, which lost protectors were released by a client: while the watch was interrupted,
// or at the moment at which they were deleted.
func (s *States) RecheckLost(ctx context.Context) {
	defer context.AfterFunc(ctx, s.LostQueue.ShutDown)()
	for {
		key, shutdown := s.LostQueue.Get()
		if shutdown {
			return
		}
		if err := s.recheckOneLost(ctx, key); err != nil {
			s.LostQueue.AddRateLimited(key)
		} else {
			s.LostQueue.Forget(key)
		}
		s.LostQueue.Done(key)
	}
}

// recheckOneLost drops a lost protector that a client has released, unless the watch has shown it again meanwhile.
func (s *States) recheckOneLost(ctx context.Context, key types.NamespacedName) error {
	s.mu.RLock()
	k := s.byName[key]
	s.mu.RUnlock()
	if !k.lost {
		return nil
	}
	released, err := clusters.WasReleased(ctx, s.protectors.Live, k.last)
	if err != nil {
		return err
	}
	switch {
	case released && s.dropUnchanged(key, k.last):
		s.log.Info("Dropped deleted PodProtector: it was released", "protector", key)
	case !released && s.isLast(key, k.last):
		s.LostQueue.AddAfter(key, lostRecheckInterval)
	}
	return nil
}
