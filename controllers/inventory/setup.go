package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Inventory selects the entries of an inventory.
type Inventory struct {
	// Namespace of the entries. Empty disables the inventory.
	Namespace string
	// Selector selects entries by their labels.
	Selector labels.Selector
}

// Options configure the controller.
type Options struct {
	// ArgoCD selects cluster Secrets of Argo CD, ClusterProfiles selects ClusterProfiles.
	ArgoCD, ClusterProfiles Inventory
	// Cells has the connections to the clusters of Cells that refer to no kubeconfig.
	Cells map[string]*rest.Config
	// SecretNamespace is the namespace to write kubeconfigs to.
	SecretNamespace string
}

// Setup adds the controller to the manager of a core cluster, if an inventory is enabled.
func Setup(mgr manager.Manager, o Options) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), Cells: o.Cells, SecretNamespace: o.SecretNamespace,
	}
	sources := []source.Source{source.Kind(mgr.GetCache(), &v1alpha1.Cell{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Cell]{}, cellChanged())}
	var errs []error
	for _, i := range []struct {
		Inventory
		add func(manager.Manager, Inventory) (inventory, []source.Source, error)
	}{{o.ArgoCD, argoCD}, {o.ClusterProfiles, clusterProfiles}} {
		if i.Namespace == "" {
			continue
		}
		entries, more, err := i.add(mgr, i.Inventory)
		errs = append(errs, err)
		r.inventories, sources = append(r.inventories, entries), append(sources, more...)
	}
	if err := errors.Join(errs...); err != nil || len(r.inventories) == 0 {
		return err
	}
	// One worker: two entries of one cluster must not both find that it has no Cell.
	return clusters.AddController(mgr, Name, controller.Options{Reconciler: r, MaxConcurrentReconciles: 1}, sources...)
}

// cellChanged ignores changes of a Cell's status, such as heartbeats.
func cellChanged() predicate.TypedPredicate[*v1alpha1.Cell] {
	return predicate.TypedFuncs[*v1alpha1.Cell]{UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.Cell]) bool {
		return !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) || !maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations)
	}}
}

// newCache adds a cache for an inventory to the manager. Its own cache holds objects of all namespaces, and must not hold all Secrets.
func newCache(mgr manager.Manager, namespace string, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	options := clusters.CacheOptions()
	options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	options.DefaultNamespaces, options.ByObject = map[string]cache.Config{namespace: {}}, objects
	entries, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("cache of an inventory: %w", err)
	}
	return entries, mgr.Add(entries)
}

func argoCD(mgr manager.Manager, i Inventory) (inventory, []source.Source, error) {
	clusterSecrets, _ := labels.SelectorFromSet(labels.Set{"argocd.argoproj.io/secret-type": "cluster"}).Requirements()
	entries, err := newCache(mgr, i.Namespace, map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: i.Selector.Add(clusterSecrets...)}})
	if err != nil {
		return nil, nil, err
	}
	return argoCDInventory{entries}, []source.Source{source.Kind(entries, &corev1.Secret{}, enqueue(argoCDCellName))}, nil
}

func clusterProfiles(mgr manager.Manager, i Inventory) (inventory, []source.Source, error) {
	kind := clusterProfileKind()
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return nil, nil, fmt.Errorf("the core cluster does not serve ClusterProfiles, so they cannot be an inventory: %w", err)
	}
	entries, err := newCache(mgr, i.Namespace, map[client.Object]cache.ByObject{
		newClusterProfile(): {Label: i.Selector},
		&corev1.Secret{}:    {Label: labels.SelectorFromSet(labels.Set{labelConsumer: consumer})},
	})
	if err != nil {
		return nil, nil, err
	}
	cellOfSecret := func(secret *corev1.Secret) string {
		profile := newClusterProfile()
		if entries.Get(context.Background(), client.ObjectKey{Namespace: secret.Namespace, Name: secret.Labels[labelProfile]}, profile) != nil {
			return "" // no entry: the event of the ClusterProfile will name the Cell
		}
		return clusterProfileCellName(profile)
	}
	return clusterProfileInventory{entries}, []source.Source{
		// Some managers report health in the status of a ClusterProfile every few seconds.
		source.Kind(entries, newClusterProfile(), enqueue(clusterProfileCellName), predicate.TypedAnnotationChangedPredicate[*metav1.PartialObjectMetadata]{}),
		source.Kind(entries, &corev1.Secret{}, enqueue(cellOfSecret)),
	}, nil
}

// enqueue requests the Cell that an object names, and the one that it named before a change.
func enqueue[Object client.Object](cellOf func(Object) string) handler.TypedEventHandler[Object, reconcile.Request] {
	add := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request], objects ...Object) {
		for _, object := range objects {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: cellOf(object)}})
		}
	}
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.TypedFuncs[Object, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[Object], queue requests) { add(queue, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[Object], queue requests) {
			add(queue, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[Object], queue requests) { add(queue, e.Object) },
	}
}
