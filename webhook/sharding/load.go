package sharding

import (
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// loadEstimates estimates how many objects each shard has: the last count of the sharder, plus what this replica has assigned
// since. It does not include assignments of other replicas, nor deletions. So the bound holds on average, and the
// sharder moves the excess.
type loadEstimates struct {
	mu    sync.Mutex
	rings map[string]*assignments
}

// assignments is how many objects the shards of a ring were assigned since a count.
type assignments struct {
	ring  types.UID
	count metav1.Time
	since map[string]int64
}

// loadOf returns the load of a ring's shards; the zero value for a ring without a bound.
func (l *loadEstimates) loadOf(r *v1alpha1.ClusterRing, shards *ring.Shards) ring.Load {
	if r.Spec.MaxLoadPercent == nil {
		return ring.Load{}
	}
	l.mu.Lock()
	since := maps.Clone(l.assignmentsOf(r).since)
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

// recordAssignment records that an object moves from one available shard, or from none, to another. The caller passes only names of
// shards, since others would be kept forever.
func (l *loadEstimates) recordAssignment(r *v1alpha1.ClusterRing, from, to string) {
	if r.Spec.MaxLoadPercent == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.assignmentsOf(r).since
	since[to]++
	if from != "" {
		since[from]--
	}
}

// drop removes the record of a deleted ring.
func (l *loadEstimates) drop(ring string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rings, ring)
}

// assignmentsOf returns what the ring's shards were assigned since its last count; nothing right after one.
func (l *loadEstimates) assignmentsOf(r *v1alpha1.ClusterRing) *assignments {
	count := metav1.Time{}
	if r.Status.LastCounted != nil {
		count = *r.Status.LastCounted
	}
	g := l.rings[r.Name]
	if g == nil || g.ring != r.UID || !g.count.Equal(&count) {
		g = &assignments{ring: r.UID, count: count, since: map[string]int64{}}
		l.rings[r.Name] = g
	}
	return g
}
