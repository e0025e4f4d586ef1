// Package members knows which shards the rings of a cluster have, by their Leases, and makes certain that those which have fallen
// silent do not work.
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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Roll is the shards of all rings. How long a Lease has not changed is timed from when this process has seen it change: no clock is
// compared with another machine's. So a process that starts takes all shards for alive at first.
type Roll struct {
	client client.Client
	// live reads Leases as they are: what is in a cache may have been so.
	live client.Reader
	log  logr.Logger
	// buries tells whether this process may take a Lease from a shard that has fallen silent. All replicas see the same in the
	// end, but one is enough to do it.
	buries func() bool
	// now is a monotonic clock.
	now    func() time.Time
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	synced func() bool

	mu sync.Mutex
	// began is when all Leases had been read; zero is not yet.
	began  time.Time
	leases map[types.NamespacedName]*seen
	told   []func(ring string)
	shards map[string]known
}

// seen is a Lease, and since when it is as it is.
type seen struct {
	lease *coordinationv1.Lease
	since time.Time
	// lost tells that it was taken away from a shard that may work on for a while.
	lost bool
}

// stateAt is what is known of the shard.
func (s *seen) stateAt(now time.Time) v1alpha1.ShardState {
	if s.lost {
		return v1alpha1.ShardUncertain
	}
	return ring.StateOf(s.lease, now.Sub(s.since))
}

func (s *seen) duration() time.Duration {
	return time.Duration(*s.lease.Spec.LeaseDurationSeconds) * time.Second
}

// known are the shards of a ring as they were asked for last.
type known struct {
	by     string
	shards *ring.Shards
}

// Select makes a cache hold the Leases of shards and no others: a cluster has one for each node besides. With namespaces, only those in
// them, so that the right to read them suffices.
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

// NewRoll makes a roll of the Leases in a manager's cache, which Select has made hold them, and adds it to the manager. buries tells
// whether this process is the one that takes Leases from shards that have fallen silent.
func NewRoll(ctx context.Context, mgr manager.Manager, buries func() bool) (*Roll, error) {
	r := &Roll{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), log: mgr.GetLogger().WithName("shards"), buries: buries, now: time.Now,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 10*time.Second)),
		leases: map[types.NamespacedName]*seen{}, shards: map[string]known{},
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return nil, fmt.Errorf("watch Leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    r.changed,
		UpdateFunc: func(_, object any) { r.changed(object) },
		DeleteFunc: r.deleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch Leases: %w", err)
	}
	r.synced = registration.HasSynced
	return r, mgr.Add(r)
}

// Tell calls somebody whenever the shards of a ring may have changed. It must be called before the manager starts.
func (r *Roll) Tell(who func(ring string)) { r.told = append(r.told, who) }

// HasSynced tells whether all Leases were read once.
func (r *Roll) HasSynced() bool {
	if !r.synced() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = r.now()
	}
	return true
}

// Of returns the shards of a ring, by their names.
func (r *Roll) Of(of *v1alpha1.ClusterRing) []v1alpha1.RingMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(of)
}

func (r *Roll) of(of *v1alpha1.ClusterRing) []v1alpha1.RingMember {
	var all []v1alpha1.RingMember
	for name, s := range r.leases {
		if name.Namespace == of.Spec.ShardNamespace && s.lease.Labels[v1alpha1.LabelRing] == of.Name {
			all = append(all, v1alpha1.RingMember{Name: name.Name, State: s.stateAt(r.now())})
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Shards returns the shards of a ring to choose from. It is made anew only when they have changed, so that two results are of the
// same shards if they are the same pointer.
func (r *Roll) Shards(of *v1alpha1.ClusterRing) *ring.Shards {
	r.mu.Lock()
	defer r.mu.Unlock()
	states, by := map[string]v1alpha1.ShardState{}, &strings.Builder{}
	fmt.Fprintf(by, "%d", of.Spec.TokensPerShard)
	for _, member := range r.of(of) {
		if ring.IsAvailable(member.State) {
			states[member.Name] = member.State
			fmt.Fprintf(by, " %s", member.Name)
		}
	}
	if last, ok := r.shards[of.Name]; ok && last.by == by.String() {
		return last.shards
	}
	now := known{by: by.String(), shards: ring.NewShards(states, int(of.Spec.TokensPerShard))}
	r.shards[of.Name] = now
	return now.shards
}

// Forget drops what is known of a ring that is deleted.
func (r *Roll) Forget(ring string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.shards, ring)
}

// Revoke puts a shard out of its ring: its Lease is taken from it, so that it stops, and its objects go to others when it must have.
func (r *Roll) Revoke(ctx context.Context, of *v1alpha1.ClusterRing, shard string) error {
	r.mu.Lock()
	s := r.leases[types.NamespacedName{Namespace: of.Spec.ShardNamespace, Name: shard}]
	r.mu.Unlock()
	if s == nil || s.lost || s.lease.Labels[v1alpha1.LabelRing] != of.Name || ring.HolderOf(s.lease) == ring.Revoked {
		return nil
	}
	return r.hold(ctx, s.lease, ring.Revoked)
}

// Holder returns whom a shard's Lease names, which tells one incarnation of it from another; empty is nobody.
func (r *Roll) Holder(of *v1alpha1.ClusterRing, shard string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.leases[types.NamespacedName{Namespace: of.Spec.ShardNamespace, Name: shard}]
	if s == nil || s.lost || s.lease.Labels[v1alpha1.LabelRing] != of.Name {
		return ""
	}
	return ring.HolderOf(s.lease)
}

// IsGone makes certain that a shard does not work. What Shards tells may lag: a shard that has just come would seem to be unknown. And of
// one that has no Lease nobody knows how long it has had none, until this process has seen none for long enough.
func (r *Roll) IsGone(ctx context.Context, of *v1alpha1.ClusterRing, shard string) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: of.Spec.ShardNamespace, Name: shard}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return r.HasSynced() && r.now().Sub(r.began) > 2*time.Duration(of.Spec.LeaseDurationSeconds)*time.Second, nil
	case err != nil:
		return false, fmt.Errorf("read the Lease of shard %s: %w", shard, err)
	case lease.Labels[v1alpha1.LabelRing] != of.Name || ring.CheckLease(lease) != nil:
		return true, nil
	default:
		return !ring.IsAvailable(ring.StateOf(lease, 0)), nil
	}
}

// hold gives a Lease another holder, unless it has changed meanwhile.
func (r *Roll) hold(ctx context.Context, lease *coordinationv1.Lease, holder string) error {
	lease = lease.DeepCopy()
	now, transitions := metav1.NowMicro(), int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = &holder, &now, &transitions
	return r.client.Update(ctx, lease)
}
