// Package members tracks the shards of a cluster's rings by their Leases, and ensures that shards which have become silent do not
// work.
package members

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// ShardTracker tracks the shards of all rings. It measures how long a Lease has not changed from the time at which this process saw the last
// change, and never compares its clock with another machine's. So a process that starts first treats all shards as alive.
type ShardTracker struct {
	client client.Client
	// live reads Leases from the API server, because the cache may be stale.
	live client.Reader
	log  logr.Logger
	// mayTombstone reports whether this process may take a Lease from a shard that has become silent. All replicas eventually see the same
	// state, but one of them is enough.
	mayTombstone func() bool
	// now is a monotonic clock.
	now    func() time.Time
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	synced func() bool

	mu sync.Mutex
	// syncedAt is the time at which all Leases had been read. It is zero before that.
	syncedAt  time.Time
	leases    map[types.NamespacedName]*observedLease
	listeners []func(ring string)
	shards    map[string]cachedShards
}

// observedLease is a Lease, and the time since which it has not changed.
type observedLease struct {
	lease          *coordinationv1.Lease
	unchangedSince time.Time
	// isLost reports that the Lease was lost by a shard that may still work for a while.
	isLost bool
}

func (s *observedLease) stateAt(now time.Time) v1alpha1.ShardState {
	if s.isLost {
		return v1alpha1.ShardUncertain
	}
	return ring.StateOf(s.lease, now.Sub(s.unchangedSince))
}

func (s *observedLease) duration() time.Duration {
	return time.Duration(*s.lease.Spec.LeaseDurationSeconds) * time.Second
}

// cachedShards has the shards of a ring as returned by the last call of Shards.
type cachedShards struct {
	key    string
	shards *ring.Shards
}

// Select restricts a cache to the Leases of shards, because a cluster also has one Lease for each node. With namespaces, the cache is
// also restricted to these, so that the permission to read Leases there is sufficient.
func Select(options *cache.Options, namespaces ...string) {
	exists, err := labels.NewRequirement(v1alpha1.LabelRing, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	by := cache.ByObject{Label: labels.NewSelector().Add(*exists)}
	for _, namespace := range namespaces {
		if by.Namespaces == nil {
			by.Namespaces = map[string]cache.Config{}
		}
		by.Namespaces[namespace] = cache.Config{}
	}
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	options.ByObject[&coordinationv1.Lease{}] = by
}

// NewShardTracker returns a ShardTracker for the Leases in a manager's cache, which Select must have configured, and adds it to the manager. mayTombstone
// reports whether this process is the one that takes Leases from silent shards.
func NewShardTracker(ctx context.Context, mgr manager.Manager, mayTombstone func() bool) (*ShardTracker, error) {
	t := &ShardTracker{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), log: mgr.GetLogger().WithName("shards"), mayTombstone: mayTombstone, now: time.Now,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 10*time.Second)),
		leases: map[types.NamespacedName]*observedLease{}, shards: map[string]cachedShards{},
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return nil, fmt.Errorf("watch Leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    t.leaseChanged,
		UpdateFunc: func(_, object any) { t.leaseChanged(object) },
		DeleteFunc: t.leaseDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch Leases: %w", err)
	}
	t.synced = registration.HasSynced
	return t, mgr.Add(t)
}

// OnChange registers a function that is called whenever the shards of a ring may have changed. It must be called before the manager
// starts.
func (t *ShardTracker) OnChange(listener func(ring string)) {
	t.listeners = append(t.listeners, listener)
}

// HasSynced reports whether all Leases have been read once.
func (t *ShardTracker) HasSynced() bool {
	if !t.synced() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.syncedAt.IsZero() {
		t.syncedAt = t.now()
	}
	return true
}

// Of returns the shards of a ring, sorted by name.
func (t *ShardTracker) Of(clusterRing *v1alpha1.ClusterRing) []v1alpha1.RingMember {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clusterRing(clusterRing)
}

func (t *ShardTracker) clusterRing(clusterRing *v1alpha1.ClusterRing) []v1alpha1.RingMember {
	var all []v1alpha1.RingMember
	for name, s := range t.leases {
		if name.Namespace == clusterRing.Spec.ShardNamespace && s.lease.Labels[v1alpha1.LabelRing] == clusterRing.Name {
			all = append(all, v1alpha1.RingMember{Name: name.Name, State: s.stateAt(t.now())})
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Shards returns the available shards of a ring. It creates a new result only if they have changed, so that two results with the same
// pointer have the same shards.
func (t *ShardTracker) Shards(clusterRing *v1alpha1.ClusterRing) *ring.Shards {
	t.mu.Lock()
	defer t.mu.Unlock()
	states, key := map[string]v1alpha1.ShardState{}, &strings.Builder{}
	fmt.Fprintf(key, "%d", clusterRing.Spec.TokensPerShard)
	for _, member := range t.clusterRing(clusterRing) {
		if ring.IsAvailable(member.State) {
			states[member.Name] = member.State
			fmt.Fprintf(key, " %s", member.Name)
		}
	}
	if last, ok := t.shards[clusterRing.Name]; ok && last.key == key.String() {
		return last.shards
	}
	now := cachedShards{key: key.String(), shards: ring.NewShards(states, int(clusterRing.Spec.TokensPerShard))}
	t.shards[clusterRing.Name] = now
	return now.shards
}

// Forget drops the record of a deleted ring.
func (t *ShardTracker) Forget(ring string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shards, ring)
}

// Revoke removes a shard from its ring. It takes the shard's Lease, so that the shard stops. The shard's objects move to other shards
// once it must have stopped.
func (t *ShardTracker) Revoke(ctx context.Context, clusterRing *v1alpha1.ClusterRing, shard string) error {
	t.mu.Lock()
	s := t.leases[types.NamespacedName{Namespace: clusterRing.Spec.ShardNamespace, Name: shard}]
	t.mu.Unlock()
	if s == nil || s.isLost || s.lease.Labels[v1alpha1.LabelRing] != clusterRing.Name || leaseholder.Of(s.lease) == leaseholder.Revoked {
		return nil
	}
	return t.setHolder(ctx, s.lease, leaseholder.Revoked)
}

// Holder returns the holder of a shard's Lease, which distinguishes the incarnations of a shard. It is empty if there is none.
func (t *ShardTracker) Holder(clusterRing *v1alpha1.ClusterRing, shard string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.leases[types.NamespacedName{Namespace: clusterRing.Spec.ShardNamespace, Name: shard}]
	if s == nil || s.isLost || s.lease.Labels[v1alpha1.LabelRing] != clusterRing.Name {
		return ""
	}
	return leaseholder.Of(s.lease)
}

// IsGone reports whether a shard certainly does not work. It reads the Lease from the API server, because Shards may lag: a shard
// that has just started would seem unknown. If a shard has no Lease, or its own has another label or duration than one of the ring, it is unknown
// since when: a shard works until its next renewal. IsGone then returns true only once this process has been synced for long enough.
func (t *ShardTracker) IsGone(ctx context.Context, clusterRing *v1alpha1.ClusterRing, shard string) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := t.live.Get(ctx, types.NamespacedName{Namespace: clusterRing.Spec.ShardNamespace, Name: shard}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return t.wasSyncedFor(2 * clusterRing.Spec.LeaseDurationSeconds), nil
	case err != nil:
		return false, fmt.Errorf("read the Lease of shard %s: %w", shard, err)
	case lease.Labels[v1alpha1.LabelRing] != clusterRing.Name || ring.CheckLease(lease) != nil:
		seconds := clusterRing.Spec.LeaseDurationSeconds
		if own := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); own <= leaseholder.MaxLeaseSeconds {
			seconds = max(seconds, own)
		}
		return !leaseholder.Is(lease, shard) || t.wasSyncedFor(2*seconds), nil
	default:
		return !ring.IsAvailable(ring.StateOf(lease, 0)), nil
	}
}

// wasSyncedFor reports whether this process has known the Leases for more than some seconds.
func (t *ShardTracker) wasSyncedFor(seconds int32) bool {
	return t.HasSynced() && t.now().Sub(t.syncedAt) > time.Duration(seconds)*time.Second
}

// setHolder changes the holder of a Lease, unless the Lease has changed meanwhile.
func (t *ShardTracker) setHolder(ctx context.Context, lease *coordinationv1.Lease, holder string) error {
	lease = lease.DeepCopy()
	now, transitions := metav1.NowMicro(), ptr.Deref(lease.Spec.LeaseTransitions, 0)+1
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = &holder, &now, &transitions
	return t.client.Update(ctx, lease)
}
