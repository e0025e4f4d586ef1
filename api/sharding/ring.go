package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// newLeaseClient creates the client for the ring and the Lease of a shard. It shares as little as possible with other clients. It
// uses HTTP/1.1: when a request is not answered in time, its connection is closed, and the next request opens another one to an
// API server. With HTTP/2 all requests would wait on a dead connection until it is detected.
func newLeaseClient(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.NextProtos, config.QPS = []string{"http/1.1"}, -1
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("ClusterRing"), meta.RESTScopeRoot)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// ringOf reads the ring that a process joins as a shard.
func ringOf(ctx context.Context, reader client.Reader, options Options) (*v1alpha1.ClusterRing, error) {
	if options.Ring == "" {
		return nil, errors.New("the shard has no ClusterRing: set Ring")
	}
	ring := &v1alpha1.ClusterRing{}
	err := reader.Get(ctx, client.ObjectKey{Name: options.Ring}, ring)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ClusterRing %q does not exist: create it before its shards start", options.Ring)
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterRing %s: %w", options.Ring, err)
	}
	if options.Namespace != "" && options.Namespace != ring.Spec.ShardNamespace {
		return nil, fmt.Errorf("ClusterRing %q has the Leases of its shards in namespace %q, not %q: set spec.shardNamespace of the ring, or start the shard with the namespace of the ring",
			ring.Name, ring.Spec.ShardNamespace, options.Namespace)
	}
	return ring, nil
}

// checkAssigned returns an error if the ring does not assign the objects of a type. The shard would never see one.
func (s *Shard) checkAssigned(mgr manager.Manager, object client.Object, main bool) error {
	kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("objects of shard %s: %w", s.name, err)
	}
	mapping, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("objects of shard %s: %w", s.name, err)
	}
	resource := v1alpha1.GroupResource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}
	for _, of := range s.spec.Resources {
		if of.GroupResource == resource || !main && slices.Contains(of.ControlledResources, resource) {
			return nil
		}
	}
	where := "spec.resources"
	if !main {
		where = "spec.resources or their controlledResources"
	}
	return fmt.Errorf("ClusterRing %q does not assign %s to shards: add them to %s, and restart the shard", s.ring, mapping.Resource.GroupResource(), where)
}
