package sharding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Path is the path of reviews of a ring.
const Path = "/rings/{ring}"

// Options are the options of the handler.
type Options struct {
	Members *members.ShardTracker
	// TriggerResync triggers a resync of a ring. It must not block.
	TriggerResync func(ring string)
	// Stopping is closed when the process is about to exit. The handler then tells clients to use another replica.
	Stopping <-chan struct{}
	Registry prometheus.Registerer
}

// Setup adds the handler to the webhook server of a manager, with a readiness check.
func Setup(ctx context.Context, mgr manager.Manager, o Options) error {
	metrics, err := newMetrics(o.Registry)
	if err != nil {
		return err
	}
	finder := &controllerFinder{
		mapper: mgr.GetRESTMapper(), log: mgr.GetLogger(), now: time.Now, missing: map[v1alpha1.GroupResource]time.Time{},
	}
	if finder.client, err = metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return fmt.Errorf("client of controllers: %w", err)
	}
	h := &Handler{
		ringOf: ringsOf(mgr.GetClient()), find: finder.find, triggerResync: o.TriggerResync, stopping: o.Stopping,
		loads: &loadEstimates{rings: map[string]*assignments{}}, metrics: metrics, log: mgr.GetLogger(),
		shardsOf: func(r *v1alpha1.ClusterRing) *ring.Shards {
			if !o.Members.HasSynced() {
				return nil
			}
			return o.Members.Shards(r)
		},
	}
	if err := h.dropDeletedRings(ctx, mgr); err != nil {
		return err
	}
	server := mgr.GetWebhookServer()
	server.Register(Path, h)
	started := server.StartedChecker()
	return mgr.AddReadyzCheck("reviews", func(r *http.Request) error {
		if !o.Members.HasSynced() {
			return errors.New("the Leases of shards are not read yet")
		}
		return started(r)
	})
}

func ringsOf(reader client.Reader) func(context.Context, string) (*v1alpha1.ClusterRing, error) {
	return func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error) {
		of := &v1alpha1.ClusterRing{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, of)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read ClusterRing %s: %w", name, err)
		}
		return of, nil
	}
}

// dropDeletedRings makes the handler drop its state of deleted rings.
func (h *Handler) dropDeletedRings(ctx context.Context, mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.ClusterRing{})
	if err != nil {
		return fmt.Errorf("watch ClusterRings: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if of, ok := object.(*v1alpha1.ClusterRing); ok {
			h.loads.drop(of.Name)
			h.metrics.Delete(of.Name)
		}
	}})
	if err != nil {
		return fmt.Errorf("watch ClusterRings: %w", err)
	}
	return nil
}
