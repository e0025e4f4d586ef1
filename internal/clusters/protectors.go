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

// Protectors reads the protectors of one core cluster as new as this process knows them, its own last writes
// included, and writes their status by compare-and-swap.
type Protectors struct {
	// Cache answers from watched protectors, Live from the apiserver itself.
	Cache, Live client.Reader
	Writer      client.StatusClient
	// Past notices that the core was restored; nil when nobody wants to know.
	Past *Past

	mu      sync.Mutex
	written map[types.NamespacedName]write
}

// write is the last state of a protector that we stored.
type write struct {
	object *v1alpha1.PodProtector
	at     time.Time
}

// trustWritten is how long an own write counts as newer than what is watched. A watch that is further behind is
// no worse than no watch: the compare-and-swap finds out. But when the core was restored from an old state, its
// versions are lower than those of our writes for ever.
const trustWritten = 10 * time.Second

// Newest returns a copy of the newest known state of a protector; it reads from memory, unless the cache has left it out. An
// error is NotFound, or the cache's, or that of the apiserver.
func (s *Protectors) Newest(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	known, err := s.known(ctx, key)
	if err == nil && IsLeftOut(known) {
		return s.Read(ctx, key)
	}
	return known, err
}

func (s *Protectors) known(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
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
	if !newer || time.Since(written.at) > trustWritten {
		delete(s.written, key)
		return cached, nil
	}
	return written.object.DeepCopy(), nil
}

// Unconfirmed is how long an own write of a protector will go on counting as newer than what is watched, if the watch has
// not shown it. After that time look again: when the core was restored to before the write, nobody else will tell.
func (s *Protectors) Unconfirmed(key types.NamespacedName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	written, ok := s.written[key]
	if !ok {
		return 0
	}
	return max(trustWritten-time.Since(written.at), 0) + time.Millisecond
}

// After returns a later state of a protector than p, whose write was a conflict: what the watch has brought meanwhile,
// which saves a request, or else what the apiserver has.
func (s *Protectors) After(ctx context.Context, p *v1alpha1.PodProtector) (*v1alpha1.PodProtector, error) {
	key := client.ObjectKeyFromObject(p)
	if known, err := s.Newest(ctx, key); err == nil {
		if newer, err := isNewer(known, p); err == nil && newer {
			return known, nil
		}
	}
	return s.Read(ctx, key)
}

// Read returns the state of a protector from the apiserver.
func (s *Protectors) Read(ctx context.Context, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	p := &v1alpha1.PodProtector{}
	if err := s.Live.Get(ctx, key, p); err != nil {
		return nil, err
	}
	return p, nil
}

// ErrAnotherPast tells that a write was stored, and that the core was restored since what it was decided on.
var ErrAnotherPast = errors.New("the core cluster was restored from a backup")

// WriteStatus replaces the status of a protector, if it still is the version that p was read at: otherwise the
// error is a Conflict. Afterwards p is what was stored.
func (s *Protectors) WriteStatus(ctx context.Context, p *v1alpha1.PodProtector) error {
	mark, read := s.Past.Mark(), p.ResourceVersion
	if err := s.Writer.Status().Update(ctx, p); err != nil {
		return err
	}
	if p.ResourceVersion != read && !s.Past.Observe(mark, p.ResourceVersion) {
		return ErrAnotherPast
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[types.NamespacedName]write{}
	}
	s.forgetOld()
	s.written[client.ObjectKeyFromObject(p)] = write{object: p.DeepCopy(), at: time.Now()}
	return nil
}

// forgetOld makes room: nobody may read a protector again that was written in a storm. Maps in Go are walked in random
// order, so a few entries at each write are enough to keep up.
func (s *Protectors) forgetOld() {
	walked := 0
	for key, written := range s.written {
		if time.Since(written.at) > trustWritten {
			delete(s.written, key)
		}
		if walked++; walked == 4 {
			return
		}
	}
}

func (s *Protectors) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}

// isNewer tells whether a stands for a later state than b. Versions of one resource are comparable.
func isNewer(a, b client.Object) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	if err != nil {
		return false, fmt.Errorf("compare versions of PodProtector %s: %w", client.ObjectKeyFromObject(a), err)
	}
	return order > 0, nil
}
