package rootguard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// fakeProtection is a Protection with one PodProtector, in namespace shop of the core "core".
type fakeProtection struct {
	unread []string
	panics bool
}

func (k fakeProtection) HasCell(cell string) bool { return cell == "a" }

func (k fakeProtection) EachProtector(namespace string, visit func(string, *v1alpha1.PodProtector)) []string {
	if k.panics {
		panic("a fault")
	}
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, v1alpha1.Pods(3)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{CountedReplicas: 4}}}
	if namespace == "" || namespace == p.Namespace {
		visit("core", p)
	}
	return k.unread
}

func (k fakeProtection) CellMetadata(string) (metadata.Interface, error) {
	return nil, errors.New("the cluster is unreachable")
}

func newHandler(t *testing.T, of fakeProtection) (*Handler, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().Build()
	return &Handler{
		mode: rootguard.Deny, protection: of, metrics: metrics, log: logr.Discard(), now: time.Now,
		cores: map[string]*coreCluster{"core": {reader: reader, owners: newOwnerFinder(reader, nil)}},
	}, registry
}

// request returns the review of a deletion by a user.
func request(kind, resource, object string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "r", Operation: admissionv1.Delete, Kind: metav1.GroupVersionKind{Version: "v1", Kind: kind},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
		UserInfo: authenticationv1.UserInfo{Username: "jane"}, OldObject: runtime.RawExtension{Raw: []byte(object)},
	}
}

func namespaceShop() *admissionv1.AdmissionRequest {
	return request("Namespace", "namespaces", `{"metadata":{"name":"shop"}}`)
}

func TestUndecidableReviewsAreAllowed(t *testing.T) {
	changed := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		r := namespaceShop()
		change(r)
		return r
	}
	for claim, c := range map[string]struct {
		of      fakeProtection
		cluster string
		request *admissionv1.AdmissionRequest
		want    rootguard.Reason
	}{
		"what can be answered is denied":            {fakeProtection{}, "cores/core", namespaceShop(), rootguard.Denied},
		"another core is not read yet":              {fakeProtection{unread: []string{"second"}}, "cores/core", namespaceShop(), rootguard.Denied},
		"the core is not read":                      {fakeProtection{unread: []string{"core"}}, "cores/core", namespaceShop(), NotReady},
		"nothing found, but not everything is read": {fakeProtection{unread: []string{"second"}}, "cells/a", request("Namespace", "namespaces", `{"metadata":{"name":"bank"}}`), NotReady},
		"an unknown core":                           {fakeProtection{}, "cores/second", namespaceShop(), UnknownCluster},
		"an unknown cell":                           {fakeProtection{}, "cores/core/cells/b", namespaceShop(), UnknownCluster},
		"no cluster":                                {fakeProtection{}, "", namespaceShop(), UnknownCluster},
		"a fault":                                   {fakeProtection{panics: true}, "cores/core", namespaceShop(), Failed},
		"a malformed object":                        {fakeProtection{}, "cores/core", request("Namespace", "namespaces", `[]`), Invalid},
		"an object without a name":                  {fakeProtection{}, "cores/core", request("Namespace", "namespaces", `{"metadata":{}}`), Invalid},
		"no object":                                 {fakeProtection{}, "cores/core", request("Namespace", "namespaces", ""), Ignored},
		"an update":                                 {fakeProtection{}, "cores/core", changed(func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }), Ignored},
		"a subresource":                             {fakeProtection{}, "cores/core", changed(func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }), Ignored},
	} {
		t.Run(claim, func(t *testing.T) {
			h, _ := newHandler(t, c.of)
			got := h.Review(t.Context(), c.cluster, c.request)
			if got.AuditAnnotations["reason"] != string(c.want) || got.Allowed != (c.want != rootguard.Denied) {
				t.Errorf("Review() = %+v, want reason %s", got, c.want)
			}
		})
	}
}

// Without an answer to a dry run, a client would think that no floor depends on the object.
func TestDryRunsAreAnsweredWithoutProtectors(t *testing.T) {
	h, _ := newHandler(t, fakeProtection{unread: []string{"core"}})
	for _, dry := range []bool{false, true} {
		request := namespaceShop()
		request.DryRun = &dry
		if got := h.Review(t.Context(), "cores/core", request); !got.Allowed || (len(got.Warnings) == 1) != dry {
			t.Errorf("Review() with dryRun %v = %+v, want it allowed, with a warning for a dry run only", dry, got)
		}
	}
}

// If its namespace cannot be read, a workload counts as unconfirmed: the denial says how to confirm on the object.
func TestUnreadableNamespaceConfirmsNothing(t *testing.T) {
	web := request("ReplicationController", "replicationcontrollers",
		`{"metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":4,"template":{"metadata":{"labels":{"app":"web"}}}}}`)
	h, _ := newHandler(t, fakeProtection{})
	if got := h.Review(t.Context(), "cells/a", web); got.Allowed || got.Result.Code != 403 {
		t.Errorf("Review() = %+v, want a denial with 403", got)
	}
}

func TestReviewsAreCountedWithoutDryRuns(t *testing.T) {
	h, registry := newHandler(t, fakeProtection{})
	dry, yes := namespaceShop(), true
	dry.DryRun = &yes
	if got := h.Review(t.Context(), "cores/core", dry); got.Allowed {
		t.Errorf("Review() of a dry run = %+v, want a denial", got)
	}
	if got := counted(t, registry); len(got) != 0 {
		t.Errorf("reviews %v after a dry run, want none", got)
	}
	h.Review(t.Context(), "cores/core", namespaceShop())
	h.Review(t.Context(), "cores/made-up", namespaceShop())
	want := map[string]float64{"Namespace Denied": 1, "unknown UnknownCluster": 1}
	if diff := cmp.Diff(want, counted(t, registry)); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
}

// counted returns the number of reviews by kind and reason.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "breakwater_rootguard_reviews_total" {
			continue
		}
		for _, series := range family.GetMetric() {
			all[series.GetLabel()[0].GetValue()+" "+series.GetLabel()[1].GetValue()] = series.GetCounter().GetValue()
		}
	}
	return all
}

// failingReader cannot list one kind.
type failingReader struct {
	client.Reader
	kind  string
	lists int
}

func (f *failingReader) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	f.lists++
	if list.GetObjectKind().GroupVersionKind().Kind == f.kind+"List" {
		return fmt.Errorf("%s may not be listed", f.kind)
	}
	return f.Reader.List(ctx, list, o...)
}
