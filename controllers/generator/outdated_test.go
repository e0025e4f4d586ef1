package generator

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

var webRef = desired.RefOf(schema.GroupKind{Group: "apps", Kind: "Deployment"}, &metav1.ObjectMeta{Namespace: "shop", Name: "web"})

// webPair is a Deployment and its protector, as they are stored.
func webPair(t *testing.T) (*appsv1.Deployment, *v1alpha1.PodProtector) {
	t.Helper()
	web := (&plane{t: t, namespace: webRef.Namespace}).deployment("web", func(d *appsv1.Deployment) {
		d.UID, d.Finalizers = "1", []string{v1alpha1.FinalizerSource}
	})
	wanted, err := desired.FromDeployment(web)
	if err != nil {
		t.Fatal(err)
	}
	wanted.Object.UID = "2"
	return web, wanted.Object
}

// terminating is an object whose deletion has begun.
func terminating[T client.Object](object T) T {
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
	return object
}

// behind is a reconciler whose cache shows some objects, while the API server has others.
func behind(t *testing.T, shown, stored []client.Object) *Reconciler {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	build := func(objects []client.Object) client.WithWatch {
		return fake.NewClientBuilder().WithScheme(fleet.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{}).
			WithIndex(&v1alpha1.PodProtector{}, sourceIndex, indexSource).WithObjects(objects...).Build()
	}
	cache, live := build(shown), build(stored)
	return &Reconciler{
		Client: split{live, cache}, Live: live, Metrics: metrics, Events: events.NewFakeRecorder(100),
		Kinds: &Kinds{
			Cache: cache, Live: live, Scheme: fleet.Scheme(), Mapper: live.RESTMapper(),
			Watched: []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		},
		Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}),
	}
}

// split reads from a cache and writes to the API server.
type split struct {
	client.WithWatch
	client.Reader
}

func (s split) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.Reader.Get(ctx, key, object, options...)
}

func (s split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.Reader.List(ctx, list, options...)
}

// An update of the status makes no event that the generator hears, and a Deployment that a restored core has deleted again looks unchanged.
func TestAnOutdatedCacheIsLookedAtAgainWithoutAnEvent(t *testing.T) {
	web, protector := webPair(t)
	unfinished := protector.DeepCopy()
	unfinished.Annotations[v1alpha1.AnnotationRestored] = "0"
	for claim, c := range map[string]struct {
		shown, stored []client.Object
		want          bool
	}{
		"a protector waits for its status": {[]client.Object{unfinished}, []client.Object{unfinished}, true},
		"a restored core has undone a deletion": {
			[]client.Object{terminating(web.DeepCopy()), protector}, []client.Object{web, protector}, true,
		},
		"the cache is up to date": {[]client.Object{protector}, []client.Object{protector}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			result, err := behind(t, c.shown, c.stored).Reconcile(t.Context(), webRef)
			if err != nil || (result.RequeueAfter == fleet.LookAgain) != c.want {
				t.Errorf("Reconcile() = %+v, %v, want it to look again: %v", result, err, c.want)
			}
		})
	}
}
