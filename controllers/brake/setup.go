package brake

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// These are the indexes of cached protectors: by their budget, and by their budget if a large decrease is pending.
const (
	budgetIndex  = "breakwater.budget"
	pendingIndex = "breakwater.pending"
)

// Options configure the brake of a core cluster.
type Options struct {
	// Limits apply to protectors whose policy sets none.
	Limits brake.Limits
	// Namespace is where the grants are stored. It must exist.
	Namespace string
	// Registry registers the metrics.
	Registry prometheus.Registerer
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
}

// Setup creates the brake of a manager. It must be called before the manager starts, and before the setup of the controllers that use it.
func Setup(ctx context.Context, mgr manager.Manager, options Options) (*Brake, error) {
	limits := options.Limits
	for field, extract := range map[string]client.IndexerFunc{
		budgetIndex:  func(object client.Object) []string { return budgetOf(object, limits, false) },
		pendingIndex: func(object client.Object) []string { return budgetOf(object, limits, true) },
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.PodProtector{}, field, extract); err != nil {
			return nil, fmt.Errorf("index PodProtectors: %w", err)
		}
	}
	b := &Brake{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Mapper: mgr.GetRESTMapper(), Events: mgr.GetEventRecorder(Name),
		Limits: limits, Now: options.Now, semaphore: make(chan struct{}, 1), metrics: newMetrics(options.Registry, mgr.GetClient()),
		ledger: &ledger{
			key: client.ObjectKey{Namespace: options.Namespace, Name: ConfigMapName}, live: mgr.GetAPIReader(), writer: mgr.GetClient(),
			observed: map[string][]brake.Grant{},
		},
	}
	if b.Now == nil {
		b.Now = time.Now
	}
	b.ledger.now = b.Now
	return b, nil
}

func budgetOf(object client.Object, limits brake.Limits, pending bool) []string {
	p, ok := object.(*v1alpha1.PodProtector)
	if !ok {
		return nil
	}
	if _, isPending := brake.PendingOf(p); pending && !isPending {
		return nil
	}
	budget, _ := brake.BudgetOf(p, limits)
	return []string{budget}
}
