package sharding

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

const (
	// controllerTimeout limits the search for the shard of a controller: the client that creates the object waits for it.
	controllerTimeout = 300 * time.Millisecond
	// missingTTL is how long a kind that the API server does not serve is not looked up again.
	missingTTL = 10 * time.Second
)

// controllerFinder finds the objects that control others. It reads them from the API server instead of a cache. So it finds
// an object that was created a moment ago, and memory does not grow with their number.
type controllerFinder struct {
	mapper meta.RESTMapper
	client metadata.Interface
	log    logr.Logger
	now    func() time.Time

	// lookups allows one mapper lookup for each resource at a time. The mapper asks the API server about unknown
	// resources, and ignores the deadline of its callers.
	lookups singleflight.Group
	mu      sync.Mutex
	missing map[v1alpha1.GroupResource]time.Time
}

// find returns the placement of the object that controls another one, or the reason why it has none.
func (c *controllerFinder) find(ctx context.Context, o *Object) (ring.Placement, Reason) {
	owner := o.Controller()
	if owner == nil {
		return ring.Placement{}, NotControlled
	}
	ctx, cancel := context.WithTimeout(ctx, controllerTimeout)
	defer cancel()
	kind, reason := c.kindOf(ctx, o, owner)
	if reason != "" {
		return ring.Placement{}, reason
	}
	resource := metadata.ResourceInterface(c.client.Resource(kind.Resource))
	if kind.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.meta.Namespace == "" {
			return ring.Placement{}, ControllerNotFound // a namespaced object cannot control a cluster-scoped one
		}
		resource = c.client.Resource(kind.Resource).Namespace(o.meta.Namespace)
	}
	controller, err := resource.Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return ring.Placement{}, ControllerNotFound
	case err != nil:
		c.log.V(1).Info("A controller could not be read", "ring", o.ring.Name, "resource", kind.Resource.String(),
			"namespace", o.meta.Namespace, "name", owner.Name, "error", err.Error())
		return ring.Placement{}, ControllerUnread
	case controller.UID != owner.UID:
		return ring.Placement{}, ControllerNotFound // another object has its name
	}
	return ring.PlacementOf(o.ring.Name, controller.Labels), ""
}

// kindOf returns the kind of an owner, if the ring assigns objects of that kind together with those that they control.
func (c *controllerFinder) kindOf(ctx context.Context, o *Object, owner *metav1.OwnerReference) (*meta.RESTMapping, Reason) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, NotControlled
	}
	for _, main := range o.controllerResources {
		if main.Group != version.Group {
			continue
		}
		kind, err := c.mappingOf(ctx, main)
		if err != nil {
			return nil, ControllerUnread
		}
		if kind != nil && kind.GroupVersionKind.Kind == owner.Kind {
			return kind, ""
		}
	}
	return nil, NotControlled
}

// mappingOf returns the kind of a resource; nil when the API server does not serve it.
func (c *controllerFinder) mappingOf(ctx context.Context, resource v1alpha1.GroupResource) (*meta.RESTMapping, error) {
	if c.isMissing(resource) {
		return nil, nil
	}
	answers := c.lookups.DoChan(resource.Group+"/"+resource.Resource, func() (any, error) {
		kind, err := c.mapper.KindFor(schema.GroupVersionResource{Group: resource.Group, Resource: resource.Resource})
		if err != nil {
			return nil, err
		}
		return c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-answers:
		if meta.IsNoMatchError(answer.Err) {
			c.markMissing(resource)
			return nil, nil
		}
		mapping, _ := answer.Val.(*meta.RESTMapping)
		return mapping, answer.Err
	}
}

func (c *controllerFinder) isMissing(resource v1alpha1.GroupResource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.missing[resource]
	return ok && c.now().Sub(since) < missingTTL
}

// markMissing records that a resource is not served. Only resources of rings are looked up, so that there are few.
func (c *controllerFinder) markMissing(resource v1alpha1.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing[resource] = c.now()
}
