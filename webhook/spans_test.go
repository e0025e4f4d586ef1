package webhook

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
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// traced is a desk that records ended spans.
type traced struct {
	*desk
	testing.TB
	spans *tracetest.SpanRecorder
}

func newTracedDesk(t testing.TB, sampler sdktrace.Sampler, protectors ...*v1alpha1.PodProtector) *traced {
	t.Helper()
	d := &traced{desk: newDesk(t, protectors...), TB: t, spans: tracetest.NewSpanRecorder()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(d.spans), sdktrace.WithSampler(sdktrace.ParentBased(sampler)))
	d.tracer = tracing.NewTracer(provider)
	d.core.tracer = d.tracer
	return d
}

// ask sends a review of the deletion of a pod as an API server does, and returns the verdict of the answer.
func (d *traced) ask(pod *corev1.Pod, headers ...string) string {
	d.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		d.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			Operation: admissionv1.Delete, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: pod.Namespace, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/cells/"+deskCell+"/validate?timeout=10s", strings.NewReader(string(body)))
	for _, traceparent := range headers {
		request.Header.Set("Traceparent", traceparent)
	}
	recorder := httptest.NewRecorder()
	server := &Server{Protection: d.Protection, Log: d.log}
	server.handler(newPace(func() int { return 1 })).ServeHTTP(recorder, request)
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil {
		d.Fatalf("%v in %s", err, recorder.Body)
	}
	return answer.Response.AuditAnnotations[v1alpha1.AuditVerdict]
}

// named returns the spans with a name, in the order in which they ended.
func (d *traced) named(name string) (all []sdktrace.ReadOnlySpan) {
	for _, span := range d.spans.Ended() {
		if span.Name() == name {
			all = append(all, span)
		}
	}
	return all
}

// one returns the only span with a name.
func (d *traced) one(name string) sdktrace.ReadOnlySpan {
	d.Helper()
	all := d.named(name)
	if len(all) != 1 {
		d.Fatalf("%d spans %s of %v", len(all), name, d.names())
	}
	return all[0]
}

func (d *traced) names() (all []string) {
	for _, span := range d.spans.Ended() {
		all = append(all, span.Name())
	}
	return all
}

func (d *traced) wantBelow(span, above sdktrace.ReadOnlySpan) {
	d.Helper()
	if span.Parent().SpanID() != above.SpanContext().SpanID() {
		d.Errorf("%s is not below %s", span.Name(), above.Name())
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

func TestAReviewIsTracedDownToTheWrite(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 2, 3))
	if verdict := d.ask(deskPod("web-0")); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	review, reserve, wait := d.one(tracing.SpanReview), d.one(tracing.SpanReserve), d.one(tracing.SpanWait)
	flight, write := d.one(tracing.SpanFlight), d.one(tracing.SpanWrite)
	d.wantBelow(reserve, review)
	d.wantBelow(wait, reserve)
	d.wantBelow(flight, reserve)
	d.wantBelow(write, flight)
	for span, want := range map[sdktrace.ReadOnlySpan]map[string]string{
		review: {
			tracing.Cell: deskCell, tracing.Operation: "Delete", tracing.Verdict: "Reserved", tracing.Allowed: "true", tracing.DryRun: "false",
			tracing.Namespace: "default", tracing.PodName: "web-0", tracing.PodUID: "uid-of-web-0", tracing.Protectors: `["core/default/web"]`,
		},
		reserve: {tracing.Core: "core", tracing.Protector: "default/web", tracing.Verdict: "Reserved"},
		flight:  {tracing.Core: "core", tracing.Protector: "default/web", tracing.FlightSize: "1"},
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
		t.Errorf("the review is a span of kind %s, the write of %s", review.SpanKind(), write.SpanKind())
	}
	if wait.EndTime().After(flight.EndTime()) || wait.EndTime().After(write.StartTime()) {
		t.Error("it waits for its flight when that has taken off")
	}
}

func TestARefusalIsTracedWithoutAWrite(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 3, 3))
	if verdict := d.ask(deskPod("web-0")); verdict != "NoBudget" {
		t.Fatal(verdict)
	}
	if got := attributesOf(d.one(tracing.SpanReview)); got[tracing.Verdict] != "NoBudget" || got[tracing.Allowed] != "false" {
		t.Errorf("the span says %v", got)
	}
	if len(d.named(tracing.SpanWrite)) > 0 {
		t.Errorf("spans %v", d.names())
	}
}

// Without sampling by the API server no span is created. A batch does not have the context of its callers, and must not
// start a trace.
func TestWhatIsNotSampledHasNoSpans(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 1, 3))
	if verdict := d.ask(deskPod("web-0"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	if got := d.names(); len(got) > 0 {
		t.Errorf("spans %v", got)
	}
}

func TestAConflictIsAnEventAndAnotherWrite(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 2, 3))
	conflicts := 1
	d.suffer(func(write func() error) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "podprotectors"}, "web", errors.New("somebody else was first"))
		}
		return write()
	})
	if verdict := d.ask(deskPod("web-0")); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	writes := d.named(tracing.SpanWrite)
	if len(writes) != 2 || attributesOf(writes[0])[tracing.Result] != "conflict" || attributesOf(writes[1])[tracing.Result] != "written" {
		t.Fatalf("spans %v", d.names())
	}
	if got := eventsOf(writes[0]); !slices.Contains(got, tracing.EventConflict) {
		t.Errorf("events %v of the write", got)
	}
	if got := eventsOf(d.one(tracing.SpanFlight)); !slices.Equal(got, []string{tracing.EventRetry}) {
		t.Errorf("events %v of the flight", got)
	}
}

// While one batch is blocked, the other reviews join the next one. That batch has one span, with links to and from each
// of them.
func TestManyReviewsShareTheSpanOfTheirFlight(t *testing.T) {
	const others = 20
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 0, 100))
	held, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() {
		close(held)
		<-release
	})
	d.suffer(func(write func() error) error {
		hold()
		return write()
	})
	var asking sync.WaitGroup
	asking.Go(func() { d.ask(deskPod("first")) })
	<-held
	for i := range others {
		asking.Go(func() { d.ask(deskPod(fmt.Sprint("web-", i))) })
	}
	testplane.Eventually(t, func() string {
		if aboard := d.core.flights.Callers(); aboard <= others {
			return fmt.Sprintf("%d callers ask", aboard)
		}
		return ""
	})
	close(release)
	asking.Wait()
	flights := d.named(tracing.SpanFlight)
	if len(flights) != 2 {
		t.Fatalf("%d flights in %v", len(flights), d.names())
	}
	shared := flights[1]
	if got := attributesOf(shared)[tracing.FlightSize]; got != fmt.Sprint(others) {
		t.Errorf("the flight is said to have %s aboard", got)
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
					t.Error("a link leads to the flight, and none back")
				}
			}
		}
	}
	if back != others || len(toward) != others {
		t.Errorf("%d links to the flight and %d back, want %d", back, len(toward), others)
	}
}

func TestGivingBackIsTraced(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("a", 2, 3), deskProtector("b", 2, 3))
	taken := false
	d.suffer(func(write func() error) error {
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
	if verdict := d.ask(deskPod("web-0")); verdict == "Reserved" {
		t.Fatal(verdict)
	}
	d.background.Wait()
	back := d.one(tracing.SpanGiveBack)
	d.wantBelow(back, d.one(tracing.SpanReview))
	if got := attributesOf(back)[tracing.Protector]; got != "default/a" {
		t.Errorf("it is given back to %q", got)
	}
}

// The trace of a handed-over removal continues in the other replica.
func TestWhatIsHandedOverIsOneTrace(t *testing.T) {
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 1, 3))
	other := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 1, 3))
	server := httptest.NewTLSServer(other.HandedOver())
	defer server.Close()
	d.core.handover = &handover{
		core: "core", tracer: d.tracer, suspects: map[string]time.Time{}, open: map[address]*parcel{},
		peers: Peers{Self: "self", Client: server.Client(), All: func() []string { return []string{server.Listener.Addr().String()} }},
	}
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	for ; d.core.handover.to(key) == ""; d.core.handover.peers.Self += "f" { // until the other replica owns the key
	}
	d.core.conflicts.Store(key, time.Now())
	if verdict := d.ask(deskPod("web-0")); verdict != "Reserved" {
		t.Fatal(verdict)
	}
	handOver, takeOver, reserve := d.one(tracing.SpanHandOver), other.one(tracing.SpanTakeOver), d.one(tracing.SpanReserve)
	d.wantBelow(handOver, reserve)
	d.wantBelow(takeOver, handOver)
	d.wantBelow(other.one(tracing.SpanFlight), takeOver)
	if len(handOver.Links()) != 1 || len(reserve.Links()) != 1 {
		t.Errorf("links %v and back %v", handOver.Links(), reserve.Links())
	}
	if got := attributesOf(handOver); got[tracing.Replica] != server.Listener.Addr().String() || got[tracing.FlightSize] != "1" {
		t.Errorf("it is said to go to %v", got)
	}
	if of := takeOver.SpanContext().TraceID(); of != d.one(tracing.SpanReview).SpanContext().TraceID() {
		t.Error("the other replica traces it apart")
	}
}

// The collector accepts no spans and the queue has room for ten: reviews are still answered.
func TestReviewsGoOnWhileTheCollectorHangs(t *testing.T) {
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
	d := newTracedDesk(t, sdktrace.AlwaysSample(), deskProtector("web", 3, 3))
	d.tracer = provider.Tracer()
	d.core.tracer = d.tracer
	began := time.Now()
	for range reviews {
		if verdict := d.ask(deskPod("web-0")); verdict != "NoBudget" {
			t.Fatal(verdict)
		}
	}
	if took := time.Since(began); took > 10*time.Second { // a review that waited for the collector would take at least that long
		t.Errorf("%d reviews took %s", reviews, took)
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
		t.Errorf("%v spans are dropped", dropped)
	}
}
