package sharding_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

// fakeMapper are the kinds of an API server. It counts how often it is asked for one.
type fakeMapper struct {
	meta.RESTMapper
	lookups atomic.Int32
	hang    chan struct{}
}

func (k *fakeMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	k.lookups.Add(1)
	if k.hang != nil {
		<-k.hang
	}
	return k.RESTMapper.KindFor(resource)
}

func newFakeMapper() *fakeMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}, {Group: "example.com", Version: "v2"}})
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Plaza"}, meta.RESTScopeRoot)
	return &fakeMapper{RESTMapper: mapper}
}

// fakeAPIServer is an API server that has one object.
type fakeAPIServer struct {
	mu     sync.Mutex
	paths  []string
	uid    string
	denial int
	hang   bool
}

func (s *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	s.mu.Unlock()
	if s.hang {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.denial != 0 {
		denial := apierrors.NewGenericServerResponse(s.denial, "get", schema.GroupResource{}, "web", "refused", 0, false).Status()
		w.WriteHeader(s.denial)
		_ = json.NewEncoder(w).Encode(denial)
		return
	}
	object := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	object.Name, object.UID = "web", "1"
	object.Labels = map[string]string{v1alpha1.LabelShard("shops"): "a", v1alpha1.LabelDrain("shops"): "true"}
	if s.uid != "" {
		object.UID = "2"
	}
	_ = json.NewEncoder(w).Encode(object)
}

func ownedBy(apiVersion, kind string, controller string) string {
	return `"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"9"},{"apiVersion":"` + apiVersion + `","kind":"` + kind +
		`","name":"web","uid":"1"` + controller + `}]`
}

func TestFindController(t *testing.T) {
	const deployments = "/apis/apps/v1/namespaces/shop/deployments/web"
	const controls = `,"controller":true`
	set := func(owners string) *admissionv1.AdmissionRequest {
		return reviewCase{resource: "apps/replicasets", object: `"namespace":"shop","name":"web-1",` + owners}.request()
	}
	for claim, test := range map[string]struct {
		request *admissionv1.AdmissionRequest
		store   *fakeAPIServer
		kinds   func(*fakeMapper)
		reason  sharding.Reason
		path    string
	}{
		"it has one":                          {request: set(ownedBy("apps/v1", "Deployment", controls)), path: deployments},
		"by a version that is served no more": {request: set(ownedBy("apps/v1beta1", "Deployment", controls)), path: deployments},
		"of the cluster":                      {request: set(ownedBy("example.com/v1", "Plaza", controls)), path: "/apis/example.com/v2/plazas/web"},
		"an owner that does not control it":   {request: set(ownedBy("apps/v1", "Deployment", "")), reason: sharding.NotControlled},
		"no owner":                            {request: set(`"labels":{}`), reason: sharding.NotControlled},
		"a kind that the ring does not have":  {request: set(ownedBy("apps/v1", "StatefulSet", controls)), reason: sharding.NotControlled},
		"the kind of another group":           {request: set(ownedBy("batch/v1", "Deployment", controls)), reason: sharding.NotControlled},
		"an invalid version":                  {request: set(ownedBy("a/b/c", "Deployment", controls)), reason: sharding.NotControlled},
		"a kind that is not served": {
			request: set(ownedBy("example.com/v1", "Plaza", controls)), reason: sharding.NotControlled,
			kinds: func(k *fakeMapper) { k.RESTMapper = meta.NewDefaultRESTMapper(nil) },
		},
		"a kind whose lookup hangs": {
			request: set(ownedBy("apps/v1", "Deployment", controls)), reason: sharding.ControllerUnread,
			kinds: func(k *fakeMapper) { k.hang = make(chan struct{}) },
		},
		"one that was deleted":              {request: set(ownedBy("apps/v1", "Deployment", controls)), store: &fakeAPIServer{denial: 404}, reason: sharding.ControllerNotFound, path: deployments},
		"one whose name another object has": {request: set(ownedBy("apps/v1", "Deployment", controls)), store: &fakeAPIServer{uid: "2"}, reason: sharding.ControllerNotFound, path: deployments},
		"one that the webhook may not read": {request: set(ownedBy("apps/v1", "Deployment", controls)), store: &fakeAPIServer{denial: 403}, reason: sharding.ControllerUnread, path: deployments},
		"one whose read hangs":              {request: set(ownedBy("apps/v1", "Deployment", controls)), store: &fakeAPIServer{hang: true}, reason: sharding.ControllerUnread, path: deployments},
		"one of a namespace, of an object of the cluster": {
			request: reviewCase{resource: "apps/replicasets", object: `"name":"web-1",` + ownedBy("apps/v1", "Deployment", controls)}.request(),
			reason:  sharding.ControllerNotFound,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			k, s := newFakeMapper(), cmp.Or(test.store, &fakeAPIServer{})
			if test.kinds != nil {
				test.kinds(k)
			}
			server := httptest.NewServer(s)
			defer server.Close()
			of := shops(v1alpha1.KeyPolicyObject)
			of.Spec.Resources = append(of.Spec.Resources, v1alpha1.RingResource{
				GroupResource:       v1alpha1.GroupResource{Group: "example.com", Resource: "plazas"},
				ControlledResources: []v1alpha1.GroupResource{{Group: "apps", Resource: "replicasets"}},
			})
			object, reason := sharding.Read(of, test.request)
			if reason != "" {
				t.Fatal(reason)
			}
			find := sharding.FindBy(k, metadata.NewForConfigOrDie(&rest.Config{Host: server.URL}), time.Now)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			at, reason := find(ctx, object)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("find() took %s", took)
			}
			want := ring.Placement{Shard: "a", Draining: true}
			if test.reason != "" {
				want = ring.Placement{}
			}
			if reason != test.reason || at != want {
				t.Errorf("%+v, %q; want %+v, %q", at, reason, want, test.reason)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.paths) > 0 != (test.path != "") || test.path != "" && s.paths[0] != test.path {
				t.Errorf("requests to the API server %q, want %q", s.paths, test.path)
			}
		})
	}
}

// Any user can create objects whose owners' kinds do not exist.
func TestUnservedKindIsCached(t *testing.T) {
	k, now := newFakeMapper(), time.Unix(1, 0)
	k.RESTMapper = meta.NewDefaultRESTMapper(nil)
	find := sharding.FindBy(k, metadata.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"}), func() time.Time { return now })
	ask := func(kind string) {
		object, reason := sharding.Read(shops(v1alpha1.KeyPolicyObject), reviewCase{resource: "apps/replicasets", object: `"namespace":"shop",` + ownedBy("apps/v1", kind, `,"controller":true`)}.request())
		if reason != "" {
			t.Fatal(reason)
		}
		if _, reason = find(t.Context(), object); reason != sharding.NotControlled {
			t.Errorf("find() has reason %s", reason)
		}
	}
	for range 50 {
		ask("Deployment")
		ask("Other")
	}
	if n := k.lookups.Load(); n != 1 {
		t.Errorf("%d mapper lookups", n)
	}
	now = now.Add(time.Minute)
	if ask("Deployment"); k.lookups.Load() != 2 {
		t.Errorf("%d mapper lookups in total a minute later", k.lookups.Load())
	}
}
