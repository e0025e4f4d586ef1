package reserve

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// losingCluster is a core that calls lose as soon as its cache has been read.
type losingCluster struct {
	cluster.Cluster
	lose func()
}

func (l losingCluster) GetCache() cache.Cache { return informers{l.Cluster.GetCache(), l.lose} }

type informers struct {
	cache.Cache
	lose func()
}

func (l informers) GetInformer(ctx context.Context, of client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := l.Cache.GetInformer(ctx, of, options...)
	asked := &cache.InformerGetOptions{}
	for _, option := range options {
		option(asked)
	}
	if err == nil && (asked.BlockUntilSynced == nil || *asked.BlockUntilSynced) {
		l.lose()
	}
	return informer, err
}

func TestProtectorLostAfterInitialListIsKept(t *testing.T) {
	namespace, admin := testplane.Namespace(t), testplane.Client(t)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Finalizers: []string{v1alpha1.FinalizerHold}}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(1)
	if err := admin.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	source, err := cluster.New(testplane.Config(t), func(o *cluster.Options) {
		o.Scheme, o.Logger = clusters.Scheme(), logr.Discard()
		o.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	})
	if err != nil {
		t.Fatal(err)
	}
	lose := sync.OnceFunc(func() {
		testplane.Erase(t, "breakwater.dev", "podprotectors", namespace, p.Name)
		testplane.Eventually(t, func() string {
			if err := source.GetCache().Get(t.Context(), client.ObjectKeyFromObject(p), &v1alpha1.PodProtector{}); err == nil {
				return "the cache still has it"
			}
			return ""
		})
	})
	c := Connect(Options{
		Name: "core", Source: losingCluster{source, lose}, Metrics: NewMetrics(prometheus.NewRegistry()), Now: time.Now,
		OnChange: func() {}, OnDrop: func(string, types.NamespacedName) {},
	})
	go func() { _ = source.Start(t.Context()) }()
	go func() { _ = c.Start(t.Context()) }()
	testplane.Eventually(t, func() string {
		if !c.Synced.Load() {
			return "the protectors are not read"
		}
		return ""
	})
	lose()
	testplane.Eventually(t, func() string {
		if c.States.LostCount() != 1 {
			return "the webhook has not recorded the protector as lost"
		}
		return ""
	})
}
