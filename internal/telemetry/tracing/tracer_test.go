package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// newTracer returns a tracer and a recorder of its ended spans.
func newTracer(options ...sdktrace.TracerProviderOption) (*tracing.Tracer, *tracetest.SpanRecorder) {
	ended := tracetest.NewSpanRecorder()
	return tracing.NewTracer(sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(ended))...)), ended
}

func TestNilTracerAllocatesNothing(t *testing.T) {
	var none *tracing.Tracer
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x"})
	ctx, header, failure := t.Context(), http.Header{"Traceparent": {sampledParent}}, errors.New("x")
	if allocations := testing.AllocsPerRun(100, func() {
		ctx, span := none.Serve(ctx, header, tracing.SpanReview)
		defer span.End()
		ctx, root := none.Root(ctx, tracing.SpanRound, time.Time{})
		ctx, step := none.Step(ctx, tracing.SpanReserve)
		ctx, call := none.Call(ctx, tracing.SpanWrite)
		ctx, shared := none.StartShared(ctx, tracing.SpanBatch, nil)
		for _, span := range []trace.Span{span, root, step, call, shared, none.Of(ctx)} {
			if span.IsRecording() {
				t.Fatal("there is a span without a tracer")
			}
			tracing.RecordError(span, failure)
		}
		tracing.Observe(ctx, histogram, 1)
	}); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// Parent spans of another process, sampled and not sampled.
const (
	sampledParent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func TestReviewIsChildOfAPIServerSpan(t *testing.T) {
	for _, c := range []struct {
		claim, parent string
		sampler       sdktrace.Sampler
		recorded      bool
	}{
		{"the apiserver's is recorded", sampledParent, sdktrace.NeverSample(), true},
		{"the apiserver's is not", unsampledParent, sdktrace.AlwaysSample(), false},
		{"it has none, and all are recorded", "", sdktrace.AlwaysSample(), true},
		{"it has none, and none is recorded", "", sdktrace.NeverSample(), false},
		{"what it says cannot be read", "00-xyz", sdktrace.AlwaysSample(), true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			tracer, ended := newTracer(sdktrace.WithSampler(sdktrace.ParentBased(c.sampler)))
			ctx, span := tracer.Serve(t.Context(), http.Header{"Traceparent": {c.parent}}, tracing.SpanReview)
			_, step := tracer.Step(ctx, tracing.SpanReserve)
			step.End()
			span.End()
			if got := len(ended.Ended()); got != map[bool]int{true: 2}[c.recorded] {
				t.Fatalf("%d spans are recorded", got)
			}
			if below := span.SpanContext().TraceID().String() == "0af7651916cd43dd8448eb211c80319c"; below != (len(c.parent) > 10) {
				t.Errorf("the trace is %s", span.SpanContext().TraceID())
			}
		})
	}
}

// The context of a batch has no span: a step in it must not start a trace.
func TestStepNeedsParentSpan(t *testing.T) {
	tracer, ended := newTracer()
	_, step := tracer.Step(t.Context(), tracing.SpanReserve)
	_, call := tracer.Call(t.Context(), tracing.SpanWrite)
	_, shared := tracer.StartShared(t.Context(), tracing.SpanBatch, nil)
	for _, span := range []trace.Span{step, call, shared} {
		span.End()
	}
	if got := ended.Ended(); len(got) > 0 {
		t.Errorf("spans %v", got)
	}
}

func TestSharedSpanIsLinkedBothWays(t *testing.T) {
	tracer, ended := newTracer()
	var by []trace.Span
	for range 3 {
		_, span := tracer.Root(t.Context(), tracing.SpanReserve, time.Now())
		by = append(by, span)
	}
	_, shared := tracer.StartShared(t.Context(), tracing.SpanBatch, by)
	shared.End()
	for _, span := range by {
		span.End()
	}
	flight := ended.Ended()[0]
	if flight.Parent().SpanID() != by[0].SpanContext().SpanID() {
		t.Error("it is not below the first")
	}
	for i, span := range by {
		toward := slices.ContainsFunc(flight.Links(), func(l sdktrace.Link) bool { return l.SpanContext.SpanID() == span.SpanContext().SpanID() })
		back := ended.Ended()[i+1].Links()
		if !toward || len(back) != 1 || back[0].SpanContext.SpanID() != flight.SpanContext().SpanID() {
			t.Errorf("span %d: linked from the shared one %v, back by %v", i, toward, back)
		}
	}
}

func TestClientsPropagateSpans(t *testing.T) {
	var header string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header.Get("Traceparent") }))
	defer server.Close()
	tracer, _ := newTracer()
	config := &rest.Config{Host: server.URL}
	tracer.WrapConfig(config)
	calls, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context) string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := calls.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if len(request.Header) > 0 {
			t.Errorf("the request of the client was changed: %v", request.Header)
		}
		return header
	}
	if got := send(t.Context()); got != "" {
		t.Errorf("without a span: traceparent = %q, want none", got)
	}
	ctx, span := tracer.Root(t.Context(), tracing.SpanRound, time.Now())
	of := span.SpanContext()
	if got, want := send(ctx), "00-"+of.TraceID().String()+"-"+of.SpanID().String()+"-01"; got != want {
		t.Errorf("traceparent = %q, want %q", got, want)
	}
	untraced := &rest.Config{}
	(*tracing.Tracer)(nil).WrapConfig(untraced)
	if untraced.WrapTransport != nil {
		t.Error("clients are changed without a tracer")
	}
}

func TestExemplarsReferToSampledTraces(t *testing.T) {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Buckets: []float64{1}})
	exemplar := func() string {
		m := &dto.Metric{}
		if err := histogram.Write(m); err != nil {
			t.Fatal(err)
		}
		if e := m.GetHistogram().GetBucket()[0].GetExemplar(); e != nil {
			return e.GetLabel()[0].GetName() + "=" + e.GetLabel()[0].GetValue()
		}
		return ""
	}
	tracer, _ := newTracer(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	unsampled, _ := tracer.Serve(t.Context(), http.Header{"Traceparent": {unsampledParent}}, tracing.SpanReview)
	for _, ctx := range []context.Context{t.Context(), unsampled} {
		tracing.Observe(ctx, histogram, 0.5)
		if got := exemplar(); got != "" {
			t.Errorf("exemplar %s of a trace that is not sampled", got)
		}
	}
	sampled, span := tracer.Root(t.Context(), tracing.SpanRound, time.Now())
	tracing.Observe(sampled, histogram, 0.5)
	if got, want := exemplar(), "trace_id="+span.SpanContext().TraceID().String(); got != want {
		t.Errorf("exemplar %q, want %q", got, want)
	}
}
