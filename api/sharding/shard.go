package sharding

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Options say which shard a process is.
type Options struct {
	// Ring is the name of the ClusterRing.
	Ring string
	// Name of the shard, a DNS label that no other process has at the same time. Empty is the name of the host up to its first
	// dot: in a pod that is the pod's name.
	Name string
	// Namespace, if it is not empty, must be the one that the ring has the Leases of its shards in.
	Namespace string
	// Stable tells that a process of the same name comes back after a stop, as in a StatefulSet: the objects of the shard wait
	// for it, for twice as long as the Lease lasts. Otherwise they go to others as soon as it has stopped.
	Stable bool
	// Objects are those types of which the manager's cache holds only the objects of this shard: those of the ring's resources
	// and controlledResources that the process reads.
	Objects []client.Object
	// After is the Shard of that name that this process was before, and whose Run has returned, if there was one. It is not waited for,
	// although its Lease may not have lapsed.
	After *Shard
}

// Shard is one of the processes among which the objects of a ring are spread.
type Shard struct {
	ring, name string
	spec       v1alpha1.ClusterRingSpec
	config     *rest.Config
	objects    []client.Object
	hold       *hold
	work       *work
	lock       *lock
	drained    map[schema.GroupVersionKind]bool
}

// New makes a shard, which joins its ring when its manager starts, or by Run. It reads the ClusterRing and the Lease of that name: the error tells
// when there is no such ring, or the Lease is somebody else's. How long the Lease lasts is what the ring says now.
func New(ctx context.Context, config *rest.Config, options Options) (*Shard, error) {
	name, err := nameOf(options.Name)
	if err != nil {
		return nil, err
	}
	leases, err := newLeaseClient(config)
	if err != nil {
		return nil, fmt.Errorf("client for the Lease of shard %s: %w", name, err)
	}
	of, err := ringOf(ctx, leases, options)
	if err != nil {
		return nil, err
	}
	duration := time.Duration(of.Spec.LeaseDurationSeconds) * time.Second
	s := &Shard{
		ring: of.Name, name: name, spec: of.Spec, config: config, objects: options.Objects,
		hold: newHold(duration), work: newWork(), drained: map[schema.GroupVersionKind]bool{},
	}
	s.lock = &lock{
		incarnation: incarnation{
			ring: of.Name, name: name, identity: ring.Returning(name) + string(uuid.NewUUID()), former: options.After.former(), duration: duration,
		},
		client: leases, key: client.ObjectKey{Namespace: of.Spec.ShardNamespace, Name: name}, stable: options.Stable, hold: s.hold, work: s.work,
	}
	lease := &coordinationv1.Lease{}
	err = leases.Get(ctx, s.lock.key, lease)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Lease %s of the shard: %w", s.lock.key, err)
	}
	if err := s.lock.check(lease); err != nil {
		return nil, err
	}
	return s, nil
}

// nameOf is the name of a shard, or why it cannot be one.
func nameOf(name string) (string, error) {
	whose := "the name of a shard"
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("the shard has no name, and the host's cannot be read: %w", err)
		}
		name, _, _ = strings.Cut(host, ".")
		whose = "the shard has no name, and that of the host is none: it"
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return "", fmt.Errorf("%s is that of its Lease and the value of labels, which %q cannot be: %s", whose, name, problems[0])
	}
	return name, nil
}

// Name is the shard's.
func (s *Shard) Name() string { return s.name }

// Ring is the name of the ClusterRing that the shard is of.
func (s *Shard) Ring() string { return s.ring }

// Namespace is where the Leases of the ring's shards are.
func (s *Shard) Namespace() string { return s.spec.ShardNamespace }

// Identity is the holder of the Lease while it is held: the name, an underscore, and what no other process of that name has.
func (s *Shard) Identity() string { return s.lock.identity }
