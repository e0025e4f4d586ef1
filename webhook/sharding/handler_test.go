package sharding_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

// handlerFixture is a handler without a cluster.
type handlerFixture struct {
	*testing.T
	handler  *sharding.Handler
	registry *prometheus.Registry
	resyncs  []string
}

func newHandlerFixture(t *testing.T, change ...func(*sharding.HandlerParts)) *handlerFixture {
	t.Helper()
	d := &handlerFixture{T: t, registry: prometheus.NewRegistry()}
	parts := sharding.HandlerParts{
		RingOf: func(_ context.Context, name string) (*v1alpha1.ClusterRing, error) {
			if name != "shops" {
				return nil, nil
			}
			return shops(v1alpha1.KeyPolicyObject), nil
		},
		ShardsOf: func(*v1alpha1.ClusterRing) *ring.Shards { return twoShards() },
		Find: func(context.Context, *sharding.Object) (ring.Placement, sharding.Reason) {
			return ring.Placement{Shard: "a"}, ""
		},
		TriggerResync: func(ring string) { d.resyncs = append(d.resyncs, ring) },
		Registry:      d.registry,
	}
	for _, c := range change {
		c(&parts)
	}
	handler, err := sharding.NewHandler(parts)
	if err != nil {
		t.Fatal(err)
	}
	d.handler = handler
	return d
}

func (d *handlerFixture) mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(sharding.Path, d.handler)
	return mux
}

// send posts a body about a ring.
func (d *handlerFixture) send(ring, body string) *http.Response {
	d.Helper()
	recorder := httptest.NewRecorder()
	d.mux().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/rings/"+ring+"?timeout=2s", strings.NewReader(body)))
	return recorder.Result()
}

// review sends a review and returns its answer, which must allow the request.
func (d *handlerFixture) review(ring string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	d.Helper()
	raw, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		d.Fatal(err)
	}
	response := d.send(ring, string(raw))
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil || response.StatusCode != http.StatusOK {
		d.Fatalf("status %s, error %v", response.Status, err)
	}
	answer := review.Response
	if review.APIVersion != "admission.k8s.io/v1" || answer == nil || !answer.Allowed || answer.UID != request.UID {
		d.Fatalf("%+v", review)
	}
	return answer
}

// counted returns the number of reviews of a ring that were answered with a reason, according to the metrics.
func counted(t testing.TB, registry prometheus.Gatherer, ring string, reason sharding.Reason) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "breakwater_ring_admission_reviews_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["ring"] == ring && labels["reason"] == string(reason) {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	return 0
}

func newWeb() *admissionv1.AdmissionRequest {
	return reviewCase{object: `"namespace":"shop","name":"web"`}.request()
}

func TestInternalErrorsNeverDeny(t *testing.T) {
	before := reviewCase{object: `"namespace":"shop","name":"web"`, old: `"namespace":"shop","name":"web",` + placementLabels("b", false)}.request()
	set := reviewCase{resource: "apps/replicasets", object: `"namespace":"shop","name":"web-1"`}.request()
	for claim, test := range map[string]struct {
		fault   func(*sharding.HandlerParts)
		request *admissionv1.AdmissionRequest
		ring    string
		reason  sharding.Reason
		shard   string
		kicks   int
	}{
		"rings that panic": {func(p *sharding.HandlerParts) {
			p.RingOf = func(context.Context, string) (*v1alpha1.ClusterRing, error) { panic("rings") }
		}, newWeb(), "unknown", sharding.Failed, "", 0},
		"rings that are not read yet": {func(p *sharding.HandlerParts) {
			p.RingOf = func(context.Context, string) (*v1alpha1.ClusterRing, error) { return nil, errors.New("not yet") }
		}, newWeb(), "unknown", sharding.NotReady, "", 0},
		"shards that panic":                                   {func(p *sharding.HandlerParts) { p.ShardsOf = func(*v1alpha1.ClusterRing) *ring.Shards { panic(1) } }, newWeb(), "shops", sharding.Failed, "", 0},
		"shards that are not read yet":                        {func(p *sharding.HandlerParts) { p.ShardsOf = func(*v1alpha1.ClusterRing) *ring.Shards { return nil } }, newWeb(), "shops", sharding.NotReady, "", 1},
		"shards that are not read yet, of an assigned object": {func(p *sharding.HandlerParts) { p.ShardsOf = func(*v1alpha1.ClusterRing) *ring.Shards { return nil } }, before, "shops", sharding.PutBack, "b", 1},
		"a controller that panics": {func(p *sharding.HandlerParts) {
			p.Find = func(context.Context, *sharding.Object) (ring.Placement, sharding.Reason) { panic("find") }
		}, set, "shops", sharding.Failed, "", 0},
		"a kick that panics": {func(p *sharding.HandlerParts) {
			p.TriggerResync = func(string) { panic("kick") }
			p.Find = func(context.Context, *sharding.Object) (ring.Placement, sharding.Reason) {
				return ring.Placement{}, sharding.ControllerUnread
			}
		}, set, "shops", sharding.Failed, "", 0},
		"no fault": {func(*sharding.HandlerParts) {}, before, "shops", sharding.PutBack, "b", 0},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newHandlerFixture(t, test.fault)
			answer := d.review("shops", test.request)
			if answer.AuditAnnotations["reason"] != string(test.reason) || answer.AuditAnnotations["shard"] != test.shard || (answer.Patch != nil) != (test.shard != "") {
				t.Errorf("%+v, want %s, %q", answer, test.reason, test.shard)
			}
			if n := counted(t, d.registry, test.ring, test.reason); n != 1 {
				t.Errorf("%d reviews of ring %s counted with reason %s, want 1", n, test.ring, test.reason)
			}
			if len(d.resyncs) != test.kicks {
				t.Errorf("resyncs %q", d.resyncs)
			}
		})
	}
}

func TestUnknownRingsCreateNoSeries(t *testing.T) {
	d := newHandlerFixture(t)
	for i := range 20 {
		d.review(fmt.Sprint("ring-", i), newWeb())
	}
	if n := counted(t, d.registry, "unknown", sharding.UnknownRing); n != 20 {
		t.Errorf("%d of 20 reviews counted", n)
	}
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if n := len(family.GetMetric()); n != 1 {
			t.Errorf("metric %s has %d series", family.GetName(), n)
		}
	}
	d.review("shops", newWeb())
	if d.handler.DropRing("shops"); counted(t, d.registry, "shops", sharding.Assigned) != 0 {
		t.Error("a deleted ring still has metrics")
	}
}

func TestMalformedReviewsGetHTTPErrors(t *testing.T) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`
	for claim, test := range map[string]struct {
		body string
		code int
	}{
		"nothing":              {"", http.StatusBadRequest},
		"no JSON":              {`{"apiVersion":`, http.StatusBadRequest},
		"a list":               {`[]`, http.StatusBadRequest},
		"no request":           {review + `null}`, http.StatusBadRequest},
		"no uid":               {review + `{"uid":""}}`, http.StatusBadRequest},
		"another version":      {`{"apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}`, http.StatusBadRequest},
		"deep nesting":         {strings.Repeat(`{"request":`, 100_000), http.StatusBadRequest},
		"more than there is":   {`{"x":"` + strings.Repeat("x", 9<<20) + `"}`, http.StatusRequestEntityTooLarge},
		"as much as there is":  {review + `{"uid":"a","x":"` + strings.Repeat("x", 7<<20) + `"}}`, http.StatusOK},
		"what we do not know":  {review + `{"uid":"a","new":{"field":1}},"newer":[]}`, http.StatusOK},
		"a number for a name":  {review + `{"uid":"a","name":7}}`, http.StatusBadRequest},
		"a word for an object": {review + `{"uid":"a","operation":"CREATE","resource":{"group":"apps","resource":"deployments"},"object":"word"}}`, http.StatusOK},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newHandlerFixture(t)
			if response := d.send("shops", test.body); response.StatusCode != test.code {
				t.Errorf("%s, want %d", response.Status, test.code)
			}
			if n := counted(t, d.registry, "unknown", sharding.Invalid); (n == 1) != (test.code != http.StatusOK) {
				t.Errorf("%d reviews counted", n)
			}
		})
	}
	recorder := httptest.NewRecorder()
	newHandlerFixture(t).mux().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/rings/shops", http.NoBody))
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("GET: status %d, want 400", recorder.Code)
	}
}

// The server has no limit of its own for slow clients.
func TestSlowClientsTimeOut(t *testing.T) {
	server := httptest.NewServer(newHandlerFixture(t).mux())
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST /rings/shops?timeout=300ms HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatalf("the server still waits for the slow client: %v", err)
	}
	if response.Body.Close(); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%s", response.Status)
	}
}

func TestDryRunHasNoSideEffects(t *testing.T) {
	bounded := shops(v1alpha1.KeyPolicyObject)
	bounded.Spec.MaxLoadPercent = ptr.To[int32](110)
	d := newHandlerFixture(t, func(p *sharding.HandlerParts) {
		p.RingOf = func(context.Context, string) (*v1alpha1.ClusterRing, error) { return bounded, nil }
		p.Find = func(context.Context, *sharding.Object) (ring.Placement, sharding.Reason) {
			return ring.Placement{}, sharding.ControllerUnassigned
		}
	})
	set := reviewCase{resource: "apps/replicasets", object: `"namespace":"shop","name":"web-1"`}.request()
	for _, request := range []*admissionv1.AdmissionRequest{newWeb(), set} {
		real := d.review("shops", request)
		d.resyncs = nil
		d.handler.DropRing("shops")
		request.DryRun = ptr.To(true)
		if dry := d.review("shops", request); !bytes.Equal(dry.Patch, real.Patch) {
			t.Errorf("%s, want %s", dry.Patch, real.Patch)
		}
		if rings, shards := d.handler.RecordedAssignments(); shards != 0 || len(d.resyncs) != 0 {
			t.Errorf("%d rings and %d shards recorded, resyncs %q", rings, shards, d.resyncs)
		}
	}
}

func TestStoppingReplicaClosesConnections(t *testing.T) {
	stopping := make(chan struct{})
	d := newHandlerFixture(t, func(p *sharding.HandlerParts) { p.Stopping = stopping })
	const review = `{"apiVersion":"admission.k8s.io/v1","request":{"uid":"a"}}`
	if got := d.send("shops", review).Header.Get("Connection"); got != "" {
		t.Errorf("Connection header %q before the stop, want none", got)
	}
	close(stopping)
	if response := d.send("shops", review); response.Header.Get("Connection") != "close" || response.StatusCode != http.StatusOK {
		t.Errorf("%s, %q", response.Status, response.Header)
	}
}
