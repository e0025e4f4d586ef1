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
	// controllerTime is how long it may take to find out where a controller is: whoever makes the object waits for it.
	controllerTime = 300 * time.Millisecond
	// missingTime is how long a kind that the apiserver does not serve is not asked for again.
	missingTime = 10 * time.Second
)

// controllers finds the objects that control others. They are read from the apiserver, not from a cache, so that one is found that was
// made a moment ago, and so that memory does not grow with them.
type controllers struct {
	mapper meta.RESTMapper
	client metadata.Interface
	log    logr.Logger
	now    func() time.Time

	// asking is one question to the mapper for each resource at a time: it asks the apiserver what it does not know, and does not
	// heed how long anybody waits for it.
	asking  singleflight.Group
	mu      sync.Mutex
	missing map[v1alpha1.GroupResource]time.Time
}

// find tells where the object is that controls another one; with a reason when it does not.
func (c *controllers) find(ctx context.Context, o *Object) (ring.Placement, Reason) {
	owner := o.Controller()
	if owner == nil {
		return ring.Placement{}, NotControlled
	}
	ctx, cancel := context.WithTimeout(ctx, controllerTime)
	defer cancel()
	kind, reason := c.kindOf(ctx, o, owner)
	if reason != "" {
		return ring.Placement{}, reason
	}
	resource := metadata.ResourceInterface(c.client.Resource(kind.Resource))
	if kind.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.meta.Namespace == "" {
			return ring.Placement{}, ControllerNotFound // an object of a namespace controls none of the cluster
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
		return ring.Placement{}, ControllerNotFound // another one has its name
	}
	return ring.PlacementOf(o.ring.Name, controller.Labels), ""
}

// kindOf is the kind of an owner, if that is one whose objects the ring assigns together with those that they control.
func (c *controllers) kindOf(ctx context.Context, o *Object, owner *metav1.OwnerReference) (*meta.RESTMapping, Reason) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, NotControlled
	}
	for _, main := range o.mains {
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

// mappingOf is the kind of a resource; nil when the apiserver does not serve it.
func (c *controllers) mappingOf(ctx context.Context, of v1alpha1.GroupResource) (*meta.RESTMapping, error) {
	if c.isMissing(of) {
		return nil, nil
	}
	answers := c.asking.DoChan(of.Group+"/"+of.Resource, func() (any, error) {
		kind, err := c.mapper.KindFor(schema.GroupVersionResource{Group: of.Group, Resource: of.Resource})
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
			c.miss(of)
			return nil, nil
		}
		mapping, _ := answer.Val.(*meta.RESTMapping)
		return mapping, answer.Err
	}
}

func (c *controllers) isMissing(of v1alpha1.GroupResource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.missing[of]
	return ok && c.now().Sub(since) < missingTime
}

// miss notes that a resource is not served. Only resources of rings are asked for, so that there are few.
func (c *controllers) miss(of v1alpha1.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing[of] = c.now()
}
