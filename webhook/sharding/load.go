package sharding

import (
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// loads are how many objects shards have: as the sharder has counted them last, and what this replica has given them since. What other
// replicas have given them it does not know, nor what was deleted: the bound is kept in the mean, and the sharder moves what is over.
type loads struct {
	mu    sync.Mutex
	rings map[string]*given
}

// given is what shards of a ring were given since a count.
type given struct {
	ring  types.UID
	count metav1.Time
	since map[string]int64
}

// of is the load of a ring's shards; the zero value for a ring without a bound.
func (l *loads) of(r *v1alpha1.ClusterRing, shards *ring.Shards) ring.Load {
	if r.Spec.MaxLoadPercent == nil {
		return ring.Load{}
	}
	l.mu.Lock()
	since := maps.Clone(l.givenTo(r).since)
	l.mu.Unlock()
	load, objects := ring.Load{Of: since}, r.Status.Unassigned
	for _, member := range r.Status.Members {
		if shards.IsAvailable(member.Name) {
			load.Of[member.Name] += member.Assigned
		}
	}
	for _, has := range load.Of {
		objects += has
	}
	load.Limit = ring.Limit(objects+1, len(shards.Shards()), r.Spec.MaxLoadPercent)
	return load
}

// note takes in that an object goes from one available shard, or from none, to another. Names that are no shards' would be kept for ever.
func (l *loads) note(r *v1alpha1.ClusterRing, from, to string) {
	if r.Spec.MaxLoadPercent == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.givenTo(r).since
	since[to]++
	if from != "" {
		since[from]--
	}
}

// forget drops what is known of a ring that is deleted.
func (l *loads) forget(ring string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rings, ring)
}

// givenTo is what the ring's shards were given since its last count; nothing right after one.
func (l *loads) givenTo(r *v1alpha1.ClusterRing) *given {
	count := metav1.Time{}
	if r.Status.LastCounted != nil {
		count = *r.Status.LastCounted
	}
	g := l.rings[r.Name]
	if g == nil || g.ring != r.UID || !g.count.Equal(&count) {
		g = &given{ring: r.UID, count: count, since: map[string]int64{}}
		l.rings[r.Name] = g
	}
	return g
}
