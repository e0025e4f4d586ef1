package clusters

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// AddReadiness makes /readyz of a manager succeed once its caches hold all objects of these kinds. what describes the kinds in errors. A
// standby replica is ready: it could take over, since the manager takes part in leader election only once its caches are filled.
func AddReadiness(ctx context.Context, mgr manager.Manager, what string, kinds ...client.Object) error {
	var informers []cache.Informer
	for _, kind := range kinds {
		informer, err := mgr.GetCache().GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		informers = append(informers, informer)
	}
	return mgr.AddReadyzCheck("caches", func(*http.Request) error {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return fmt.Errorf("the caches of %s are not filled yet", what)
			}
		}
		return nil
	})
}
