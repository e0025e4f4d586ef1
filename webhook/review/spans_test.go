package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// tracedFixture is a fixture that records ended spans.
type tracedFixture struct {
	*memoryFixture
	testing.TB
	spans *tracetest.SpanRecorder
}

func newTracedFixture(t testing.TB, sampler sdktrace.Sampler, protectors ...*v1alpha1.PodProtector) *tracedFixture {
	t.Helper()
	d := &tracedFixture{memoryFixture: newMemoryFixture(t, protectors...), TB: t, spans: tracetest.NewSpanRecorder()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(d.spans), sdktrace.WithSampler(sdktrace.ParentBased(sampler)))
	d.connect(tracing.NewTracer(provider))
	return d
}

// sendReview sends a review of the deletion of a pod as an API server does, and returns the verdict of the answer.
func (d *tracedFixture) sendReview(pod *corev1.Pod, headers ...string) string {
	d.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		d.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "review", Operation: admissionv1.Delete, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: pod.Namespace, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/cells/"+memoryCell+"/validate?timeout=10s", strings.NewReader(string(body)))
	for _, traceparent := range headers {
		request.Header.Set("Traceparent", traceparent)
	}
	recorder := httptest.NewRecorder()
	d.handler().ServeHTTP(recorder, request)
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil {
		d.Fatalf("%v in %s", err, recorder.Body)
	}
	return answer.Response.AuditAnnotations[v1alpha1.AuditVerdict]
}

// named returns the spans with a name, in the order in which they ended.
func (d *tracedFixture) named(name string) (all []sdktrace.ReadOnlySpan) {
	for _, span := range d.spans.Ended() {
		if span.Name() == name {
			all = append(all, span)
		}
	}
	return all
}

// one returns the only span with a name.
func (d *tracedFixture) one(name string) sdktrace.ReadOnlySpan {
	d.Helper()
	all := d.named(name)
	if len(all) != 1 {
		d.Fatalf("%d spans %s of %v", len(all), name, d.names())
	}
	return all[0]
}

func (d *tracedFixture) names() (all []string) {
	for _, span := range d.spans.Ended() {
		all = append(all, span.Name())
	}
	return all
}

func (d *tracedFixture) wantChild(span, above sdktrace.ReadOnlySpan) {
	d.Helper()
	if span.Parent().SpanID() != above.SpanContext().SpanID() {
		d.Errorf("span %s is not a child of %s", span.Name(), above.Name())
	}
}

// attributesOf returns the attributes of a span as text.
func attributesOf(span sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func eventsOf(span sdktrace.ReadOnlySpan) (all []string) {
	for _, event := range span.Events() {
		all = append(all, event.Name)
	}
	return all
}

func TestReviewTraceIncludesWrite(t *testing.T) {
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 2, 3))
	if verdict := d.sendReview(memoryPod("web-0")); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	review, reserve, wait := d.one(tracing.SpanReview), d.one(tracing.SpanReserve), d.one(tracing.SpanWait)
	flight, write := d.one(tracing.SpanBatch), d.one(tracing.SpanWrite)
	d.wantChild(reserve, review)
	d.wantChild(wait, reserve)
	d.wantChild(flight, reserve)
	d.wantChild(write, flight)
	for span, want := range map[sdktrace.ReadOnlySpan]map[string]string{
		review: {
			tracing.Cell: memoryCell, tracing.Operation: "Delete", tracing.Verdict: "Reserved", tracing.Allowed: "true", tracing.DryRun: "false",
			tracing.Namespace: "default", tracing.PodName: "web-0", tracing.PodUID: "uid-of-web-0", tracing.Protectors: `["core/default/web"]`,
		},
		reserve: {tracing.Core: "core", tracing.Protector: "default/web", tracing.Verdict: "Reserved"},
		flight:  {tracing.Core: "core", tracing.Protector: "default/web", tracing.BatchSize: "1"},
		write:   {tracing.Result: "written"},
	} {
		got := attributesOf(span)
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", span.Name(), key, got[key], value)
			}
		}
	}
	if review.SpanKind() != trace.SpanKindServer || write.SpanKind() != trace.SpanKindClient {
		t.Errorf("span kinds: review %s, write %s; want server and client", review.SpanKind(), write.SpanKind())
	}
	if wait.EndTime().After(flight.EndTime()) || wait.EndTime().After(write.StartTime()) {
		t.Error("the wait span ended after the batch span, or after the write began")
	}
}

func TestDenialTraceHasNoWrite(t *testing.T) {
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 3, 3))
	if verdict := d.sendReview(memoryPod("web-0")); verdict != "NoBudget" {
		t.Fatal(verdict)
	}
	if got := attributesOf(d.one(tracing.SpanReview)); got[tracing.Verdict] != "NoBudget" || got[tracing.Allowed] != "false" {
		t.Errorf("span attributes %v", got)
	}
	if len(d.named(tracing.SpanWrite)) > 0 {
		t.Errorf("spans %v", d.names())
	}
}

// Without sampling by the API server no span is created. A batch does not have the context of its callers, and must not
// start a trace.
func TestUnsampledReviewsHaveNoSpans(t *testing.T) {
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 1, 3))
	if verdict := d.sendReview(memoryPod("web-0"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	if got := d.names(); len(got) > 0 {
		t.Errorf("spans %v", got)
	}
}

func TestConflictTraceHasRetry(t *testing.T) {
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 2, 3))
	conflicts := 1
	d.setFault(func(write func() error) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "podprotectors"}, "web", errors.New("another writer was first"))
		}
		return write()
	})
	if verdict := d.sendReview(memoryPod("web-0")); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	writes := d.named(tracing.SpanWrite)
	if len(writes) != 2 || attributesOf(writes[0])[tracing.Result] != "conflict" || attributesOf(writes[1])[tracing.Result] != "written" {
		t.Fatalf("spans %v", d.names())
	}
	if got := eventsOf(writes[0]); !slices.Contains(got, tracing.EventConflict) {
		t.Errorf("events %v of the write", got)
	}
	if got := eventsOf(d.one(tracing.SpanBatch)); !slices.Equal(got, []string{tracing.EventRetry}) {
		t.Errorf("events %v of the batch", got)
	}
}

// While one batch is blocked, the other reviews join the next one. That batch has one span, with links to and from each
// of them.
func TestReviewsShareTheSpanOfTheirBatch(t *testing.T) {
	const others = 20
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 0, 100))
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() {
		close(held)
		<-release
	})
	d.setFault(func(write func() error) error {
		hold()
		return write()
	})
	var asking sync.WaitGroup
	asking.Go(func() { d.sendReview(memoryPod("first")) })
	<-held
	for i := range others {
		asking.Go(func() { d.sendReview(memoryPod(fmt.Sprint("web-", i))) })
	}
	testplane.Eventually(t, func() string {
		if aboard := d.core.Waiting(); aboard <= others {
			return fmt.Sprintf("%d callers ask", aboard)
		}
		return ""
	})
	close(release)
	asking.Wait()
	flights := d.named(tracing.SpanBatch)
	if len(flights) != 2 {
		t.Fatalf("%d batch spans in %v", len(flights), d.names())
	}
	shared := flights[1]
	if got := attributesOf(shared)[tracing.BatchSize]; got != fmt.Sprint(others) {
		t.Errorf("batch size attribute %s", got)
	}
	toward := map[trace.SpanID]bool{}
	for _, link := range shared.Links() {
		toward[link.SpanContext.SpanID()] = true
	}
	back := 0
	for _, reserve := range d.named(tracing.SpanReserve) {
		for _, link := range reserve.Links() {
			if link.SpanContext.SpanID() == shared.SpanContext().SpanID() {
				back++
				if !toward[reserve.SpanContext().SpanID()] {
					t.Error("the reserve span links to the batch span, but not vice versa")
				}
			}
		}
	}
	if back != others || len(toward) != others {
		t.Errorf("%d links from the batch and %d to it, want %d", back, len(toward), others)
	}
}

func TestGiveBackIsTraced(t *testing.T) {
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("a", 2, 3), memoryProtector("b", 2, 3))
	taken := false
	d.setFault(func(write func() error) error {
		err := write()
		if !taken { // meanwhile another client uses up the budget of the other protector
			taken = true
			other := d.stored(t, "b")
			other.Spec.MinAvailable = v1alpha1.Pods(3)
			if err := d.client.Update(t.Context(), other); err != nil {
				t.Error(err)
			}
		}
		return err
	})
	if verdict := d.sendReview(memoryPod("web-0")); verdict == "Reserved" {
		t.Fatal(verdict)
	}
	d.cores.Wait()
	back := d.one(tracing.SpanGiveBack)
	d.wantChild(back, d.one(tracing.SpanReview))
	if got := attributesOf(back)[tracing.Protector]; got != "default/a" {
		t.Errorf("give-back span has protector %q", got)
	}
}

// The collector accepts no spans and the queue has room for ten: reviews are still answered.
func TestReviewsContinueWhileCollectorHangs(t *testing.T) {
	hanging, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	registry := prometheus.NewRegistry()
	provider, err := tracing.Start(t.Context(), tracing.Options{
		Component: "webhook", Endpoint: "http://" + hanging.Addr().String(), Sampling: 1, Registry: registry, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop(0)
	const reviews = 500
	d := newTracedFixture(t, sdktrace.AlwaysSample(), memoryProtector("web", 3, 3))
	d.connect(provider.Tracer())
	began := time.Now()
	for range reviews {
		if verdict := d.sendReview(memoryPod("web-0")); verdict != "NoBudget" {
			t.Fatal(verdict)
		}
	}
	if took := time.Since(began); took > 10*time.Second { // a review that waited for the collector would take at least that long
		t.Errorf("%d reviews took %s while the collector hangs", reviews, took)
	}
	dropped := 0.0
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == "dropped" {
				dropped += metric.GetCounter().GetValue()
			}
		}
	}
	if dropped < reviews-20 {
		t.Errorf("%v dropped spans", dropped)
	}
}
