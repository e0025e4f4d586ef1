package reserve

import (
	"net/http/httptest"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// The trace of a handed-over removal continues in the other replica.
func TestForwardingContinuesTheTrace(t *testing.T) {
	d, other, spans := newMemoryFixture(t, memoryProtector("web", 1, 3)), newMemoryFixture(t, memoryProtector("web", 1, 3)), tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	tracer := tracing.NewTracer(provider)
	d.core.Trace(tracer)
	other.core.Trace(tracer)
	server := httptest.NewTLSServer(other.PeerHandler(tracer))
	defer server.Close()
	address := server.Listener.Addr().String()
	d.core.reserver.forwarder = newForwarder("core", Peers{Self: "self", Client: server.Client(), All: func() []string { return []string{address} }}, tracer)
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	own(d.core.reserver.forwarder, key, false)
	d.core.reserver.conflicts.record(key)
	ctx, review := provider.Tracer("test").Start(t.Context(), tracing.SpanReview)
	if decision := d.remove(ctx, memoryPod("web-0")); decision.Denial != nil {
		t.Fatal(decision.Denial)
	}
	review.End()
	one := func(name string) sdktrace.ReadOnlySpan {
		t.Helper()
		ended := spans.Ended()
		i := slices.IndexFunc(ended, func(span sdktrace.ReadOnlySpan) bool { return span.Name() == name })
		if i < 0 {
			t.Fatalf("no span %s", name)
		}
		return ended[i]
	}
	handOver, takeOver, reserve := one(tracing.SpanHandOver), one(tracing.SpanTakeOver), one(tracing.SpanReserve)
	for _, c := range []struct{ span, above sdktrace.ReadOnlySpan }{{handOver, reserve}, {takeOver, handOver}, {one(tracing.SpanBatch), takeOver}} {
		if c.span.Parent().SpanID() != c.above.SpanContext().SpanID() {
			t.Errorf("span %s is not a child of %s", c.span.Name(), c.above.Name())
		}
	}
	if len(handOver.Links()) != 1 || len(reserve.Links()) != 1 {
		t.Errorf("links %v and back %v", handOver.Links(), reserve.Links())
	}
	attributes := map[string]string{}
	for _, a := range handOver.Attributes() {
		attributes[string(a.Key)] = a.Value.String()
	}
	if attributes[tracing.Replica] != address || attributes[tracing.BatchSize] != "1" {
		t.Errorf("forward span attributes %v", attributes)
	}
	if takeOver.SpanContext().TraceID() != review.SpanContext().TraceID() {
		t.Error("the other replica started a trace of its own")
	}
}
