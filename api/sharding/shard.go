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

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Options identify the shard that a process runs.
type Options struct {
	// Ring is the name of the ClusterRing.
	Ring string
	// Name of the shard: a DNS label that no other process uses at the same time. If empty, it is the host name up to its first
	// dot; in a pod that is the pod's name.
	Name string
	// Namespace, if not empty, must be the namespace in which the ring has the Leases of its shards.
	Namespace string
	// Stable means that a process of the same name comes back after a stop, as in a StatefulSet. The objects of the shard then
	// wait for it, for twice the Lease duration. Otherwise other shards get them as soon as it has stopped.
	Stable bool
	// Objects are the types of which the manager's cache holds only the objects of this shard: those of the ring's resources and
	// controlledResources that the process reads. The options of the manager's cache must have no other label selector for them.
	Objects []client.Object
	// After is the Shard of the same name that this process ran before and whose Run has returned, if there was one. The new
	// Shard does not wait for it, even if its Lease has not expired.
	After *Shard
}

// Shard is one of the processes that share the objects of a ring.
type Shard struct {
	ring, name string
	spec       v1alpha1.ClusterRingSpec
	config     *rest.Config
	objects    []client.Object
	hold       *leaseHold
	work       *work
	lock       *lock
	drained    map[schema.GroupVersionKind]bool
}

// New creates a shard, which joins its ring when its manager starts, or in Run. It reads the ClusterRing and the Lease with the
// shard's name. It returns an error if the ring does not exist, or if the Lease does not belong to this shard. The Lease duration
// is the current one of the ring.
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
		hold: newLeaseHold(duration), work: newWork(), drained: map[schema.GroupVersionKind]bool{},
	}
	s.lock = &lock{
		incarnation: incarnation{
			ring: of.Name, name: name, identity: leaseholder.Returning(name) + string(uuid.NewUUID()), predecessor: options.After.endedIdentity(), duration: duration,
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
	if err := s.lock.checkAcquirable(lease); err != nil {
		return nil, err
	}
	return s, nil
}

// nameOf returns the name of a shard, or why it is invalid.
func nameOf(name string) (string, error) {
	whose := "the name of a shard"
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("the shard has no name, and the host name cannot be read: %w", err)
		}
		name, _, _ = strings.Cut(host, ".")
		whose = "the shard has no name, and the host name is invalid: it"
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return "", fmt.Errorf("%s names its Lease and is a label value, for which %q is invalid: %s", whose, name, problems[0])
	}
	return name, nil
}

// Name returns the name of the shard.
func (s *Shard) Name() string { return s.name }

// Namespace returns the namespace of the ring's shard Leases.
func (s *Shard) Namespace() string { return s.spec.ShardNamespace }

// Identity returns the holder of the Lease while the shard holds it: the name, an underscore, and a suffix that no other process
// of that name has.
func (s *Shard) Identity() string { return s.lock.identity }
