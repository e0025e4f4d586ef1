package reserve

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// States holds what this replica knows of the protectors of a core: the states that the watch has shown, the pods
// that they cover, and which protectors were lost. It is safe for concurrent use. The watch must report the changes of one
// protector one at a time.
type States struct {
	core            string
	protectors      *clusters.Protectors
	restoreDetector *clusters.RestoreDetector
	conflicts       *conflictLog
	// onDrop is called for each protector that was released.
	onDrop func(core string, protector types.NamespacedName)
	log    logr.Logger
	// coverage indexes the pods that the protectors cover.
	coverage *coverageIndex
	// LostQueue queues the protectors that were deleted, to find out whether a client has released them.
	LostQueue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	// changing makes one change of coverage and byName at a time: a protector that is created again must not lose its coverage to the check of the
	// lost one.
	changing sync.Mutex

	mu sync.RWMutex
	// byName holds the last state of each protector that the watch has shown.
	byName map[types.NamespacedName]protectorState
}

// protectorState is the state of a protector that the watch has shown.
type protectorState struct {
	last *v1alpha1.PodProtector
	// lost reports that the protector no longer exists although no client has released it. Its last state stays in
	// force for as long as this process remembers it. No reservation can be made with it, so the webhook refuses every
	// removal that it would be charged for (rule 10).
	lost bool
}

// SetCoverage records a state of a protector that may cover other pods than before.
func (s *States) SetCoverage(obj any) {
	if p, ok := obj.(*v1alpha1.PodProtector); ok {
		s.changing.Lock()
		defer s.changing.Unlock()
		s.coverage.set(p)
		s.Set(p)
	}
}

// Set records a state of a protector.
func (s *States) Set(obj any) {
	p, ok := obj.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[types.NamespacedName]protectorState{}
	}
	s.byName[client.ObjectKeyFromObject(p)] = protectorState{last: p}
}

// Drop forgets a protector that was released.
func (s *States) Drop(key types.NamespacedName) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.drop(key)
}

// dropUnchanged forgets a protector that was released if last is still its last state.
func (s *States) dropUnchanged(key types.NamespacedName, last *v1alpha1.PodProtector) (dropped bool) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.isLast(key, last) {
		return false
	}
	s.drop(key)
	return true
}

// isLast reports whether the watch has shown no other state of a protector since last.
func (s *States) isLast(key types.NamespacedName, last *v1alpha1.PodProtector) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[key].last == last
}

func (s *States) drop(key types.NamespacedName) {
	s.conflicts.forget(key)
	s.coverage.delete(key)
	s.onDrop(s.core, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, key)
}

// newest returns the newest known state of a protector. A lost protector is returned in its last seen state, with lost
// set.
func (s *States) newest(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, lost bool, err error) {
	p, err = s.protectors.Newest(ctx, key)
	if err == nil {
		quota.VoidCountsUntil(p, s.restoreDetector.LostVersion()) // rule 11
	}
	if apierrors.IsNotFound(err) {
		if last := s.lastLost(key); last != nil {
			return last, true, nil // rule 10
		}
	}
	return p, false, err
}

// readLive reads a protector from the core. released reports that it no longer exists because a client has released it. It
// is an error if it no longer exists and was lost.
func (s *States) readLive(ctx context.Context, key types.NamespacedName) (p *v1alpha1.PodProtector, released bool, err error) {
	p, err = s.protectors.Read(ctx, key)
	if apierrors.IsNotFound(err) && s.lastLost(key) == nil {
		return nil, true, nil
	}
	if err == nil {
		quota.VoidCountsUntil(p, s.restoreDetector.LostVersion()) // rule 11
	}
	return p, false, err
}

// LastSeen returns the last state of a protector that the watch has shown; nil if it does not exist.
func (s *States) LastSeen(key types.NamespacedName) *v1alpha1.PodProtector {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[key].last
}

// InNamespace returns the states that the watch has shown, of one namespace or, if namespace is empty, of all. It holds
// the lock only for a scan, so that removals do not wait.
func (s *States) InNamespace(namespace string) (all []*v1alpha1.PodProtector) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, state := range s.byName {
		if state.last != nil && (namespace == "" || key.Namespace == namespace) {
			all = append(all, state.last)
		}
	}
	return all
}

// Covering returns the protectors that cover a pod of a cell with the given labels.
func (s *States) Covering(cell, namespace string, labels map[string]string) []types.NamespacedName {
	return s.coverage.covering(cell, namespace, labels)
}

// CoveringResolved is like Covering, without the protectors that may cover the pod only because no aggregator has looked yet.
func (s *States) CoveringResolved(cell, namespace string, labels map[string]string) []types.NamespacedName {
	return s.coverage.coveringResolved(cell, namespace, labels)
}

// FindSameTarget returns the first other protector of the namespace, by name, that names the same workload.
func (s *States) FindSameTarget(key types.NamespacedName, ref v1alpha1.TargetRef) (name string, found bool) {
	return s.coverage.findSameTarget(key, ref)
}
