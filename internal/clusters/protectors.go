package clusters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Protectors reads the newest state of the protectors of one core cluster that this process has, its own last writes included. It writes
// their status by compare-and-swap.
type Protectors struct {
	// Cache reads watched protectors, Live reads from the API server.
	Cache, Live client.Reader
	Writer      client.StatusClient
	// RestoreDetector detects that the core was restored; nil disables the detection.
	RestoreDetector *RestoreDetector

	mu      sync.Mutex
	written map[types.NamespacedName]ownWrite
}

// ownWrite is the last state of a protector that this process stored, in the incarnation of the core of the mark.
type ownWrite struct {
	object *v1alpha1.PodProtector
	at     time.Time
	mark   Mark
}

// ownWriteTTL is how long an own write counts as newer than the watched state. Using a watch that lags further is safe, because the
// compare-and-swap fails on an old state. The limit is needed because, when the core was restored from an old state and nothing has shown that,
// its versions stay lower than those of the own writes for ever.
const ownWriteTTL = 10 * time.Second

// Newest returns a copy of the newest known state of a protector. It reads from memory, unless the cache holds only a stub. An error is
// NotFound, or an error of the cache or of the API server.
func (s *Protectors) Newest(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	known, err := s.newestKnown(ctx, key)
	if err == nil && IsStub(known) {
		return s.Read(ctx, key)
	}
	return known, err
}

func (s *Protectors) newestKnown(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	cached := &v1alpha1.PodProtector{}
	if err := s.Cache.Get(ctx, key, cached); err != nil {
		if apierrors.IsNotFound(err) {
			s.forget(key)
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	written, ok := s.written[key]
	if !ok {
		return cached, nil
	}
	newer, err := isNewer(written.object, cached)
	if err != nil {
		return nil, err
	}
	if !newer || time.Since(written.at) > ownWriteTTL || !s.RestoreDetector.IsSameIncarnation(written.mark) { // rule 11
		delete(s.written, key)
		return cached, nil
	}
	return written.object.DeepCopy(), nil
}

// Unconfirmed returns how long an own write of a protector will continue to count as newer than the watched state, or 0 if the watch has
// shown it. After that time the caller must look again: if the core was restored to a state before the write, no event follows.
func (s *Protectors) Unconfirmed(key types.NamespacedName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	written, ok := s.written[key]
	if !ok {
		return 0
	}
	return max(ownWriteTTL-time.Since(written.at), 0) + time.Millisecond
}

// After returns a later state of a protector than p, whose write was a conflict. It returns the state from the watch if that is newer,
// which saves a request, or else reads from the API server.
func (s *Protectors) After(ctx context.Context, p *v1alpha1.PodProtector) (*v1alpha1.PodProtector, error) {
	key := client.ObjectKeyFromObject(p)
	if known, err := s.Newest(ctx, key); err == nil {
		if newer, err := isNewer(known, p); err == nil && newer {
			return known, nil
		}
	}
	return s.Read(ctx, key)
}

// Read returns the state of a protector from the API server.
func (s *Protectors) Read(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	p := &v1alpha1.PodProtector{}
	if err := s.Live.Get(ctx, key, p); err != nil {
		return nil, err
	}
	return p, nil
}

// ErrCoreRestored means that a write was stored, but that the core was restored after the state on which the write was decided.
var ErrCoreRestored = errors.New("the core cluster was restored from a backup")

// Confirm forgets the own write of a protector if the watch has shown it, or a later state. The caller calls it with each state that the
// watch shows, when the cache has it. Without such calls an own write stays in memory until it is read or ownWriteTTL has passed.
func (s *Protectors) Confirm(shown *v1alpha1.PodProtector) {
	key := client.ObjectKeyFromObject(shown)
	s.mu.Lock()
	defer s.mu.Unlock()
	if written, ok := s.written[key]; ok {
		if newer, err := isNewer(written.object, shown); err == nil && !newer {
			delete(s.written, key)
		}
	}
}

// WriteStatus replaces the status of a protector if its version is still the one of p; otherwise the error is a Conflict. On success it
// updates p to the stored object, without its managed fields: like the watched states, own writes are kept without them.
func (s *Protectors) WriteStatus(ctx context.Context, p *v1alpha1.PodProtector) error {
	mark, read := s.RestoreDetector.Mark(), p.ResourceVersion
	if err := s.Writer.Status().Update(ctx, p); err != nil {
		return err
	}
	if p.ResourceVersion != read && !s.RestoreDetector.Observe(mark, p.ResourceVersion) {
		return ErrCoreRestored
	}
	p.ManagedFields = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[types.NamespacedName]ownWrite{}
	}
	s.forgetOldWrites()
	s.written[client.ObjectKeyFromObject(p)] = ownWrite{object: p.DeepCopy(), at: time.Now(), mark: mark}
	return nil
}

// forgetOldWrites limits memory, because a protector that was written in a storm may never be read again. Go iterates maps in random order, so
// checking four entries at each write is enough to keep up.
func (s *Protectors) forgetOldWrites() {
	checked := 0
	for key, written := range s.written {
		if time.Since(written.at) > ownWriteTTL {
			delete(s.written, key)
		}
		if checked++; checked == 4 {
			return
		}
	}
}

func (s *Protectors) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}

// isNewer reports whether a is a later state than b. Versions of one resource are comparable.
func isNewer(a, b client.Object) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	if err != nil {
		return false, fmt.Errorf("compare versions of PodProtector %s: %w", client.ObjectKeyFromObject(a), err)
	}
	return order > 0, nil
}
