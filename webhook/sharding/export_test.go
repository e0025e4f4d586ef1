package sharding

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// HandlerParts are the dependencies of a handler.
type HandlerParts struct {
	RingOf        func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error)
	ShardsOf      func(*v1alpha1.ClusterRing) *ring.Shards
	Find          func(context.Context, *Object) (ring.Placement, Reason)
	TriggerResync func(ring string)
	Stopping      chan struct{}
	Registry      prometheus.Registerer
}

// NewHandler creates a handler without a cluster.
func NewHandler(p HandlerParts) (*Handler, error) {
	metrics, err := newMetrics(p.Registry)
	return &Handler{
		ringOf: p.RingOf, shardsOf: p.ShardsOf, find: p.Find, triggerResync: p.TriggerResync, stopping: p.Stopping,
		loads: &loadEstimates{rings: map[string]*assignments{}}, metrics: metrics, log: logr.Discard(),
	}, err
}

// RecordedAssignments returns the number of rings, and of their shards, whose assignments the handler has recorded.
func (h *Handler) RecordedAssignments() (rings, shards int) {
	for _, g := range h.loads.rings {
		rings, shards = rings+1, shards+len(g.since)
	}
	return rings, shards
}

// DropRing does what the deletion of a ring does.
func (h *Handler) DropRing(ring string) {
	h.loads.drop(ring)
	h.metrics.Delete(ring)
}

// FindBy returns a function that finds controllers with a client. now is its clock.
func FindBy(mapper meta.RESTMapper, client metadata.Interface, now func() time.Time) func(context.Context, *Object) (ring.Placement, Reason) {
	c := &controllerFinder{mapper: mapper, client: client, log: logr.Discard(), now: now, missing: map[v1alpha1.GroupResource]time.Time{}}
	return c.find
}
