package scheduling

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

func TestReviewSpanRecordsAnswer(t *testing.T) {
	d, spans := newHandlerFixture(t, policy()), tracetest.NewSpanRecorder()
	tracer := tracing.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	ctx, span := tracer.Serve(t.Context(), http.Header{}, tracing.SpanSchedule)
	d.Review(ctx, "worker-1", creation(podKind, podWithUnknownFields))
	span.End()
	got := map[string]string{}
	for _, a := range spans.Ended()[0].Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		tracing.Cell: "worker-1", tracing.Reason: string(Injected), tracing.Allowed: "true", tracing.Kind: "Pod", tracing.Namespace: "shop",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if trace := exemplarOf(t, d, "breakwater_scheduling_review_duration_seconds"); trace != span.SpanContext().TraceID().String() {
		t.Errorf("the exemplar is of trace %q", trace)
	}
}

// exemplarOf returns the trace ID of the first exemplar of a histogram.
func exemplarOf(t *testing.T, d *handlerFixture, name string) string {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return firstExemplar(family)
		}
	}
	return ""
}

func firstExemplar(family *dto.MetricFamily) string {
	for _, metric := range family.GetMetric() {
		for _, bucket := range metric.GetHistogram().GetBucket() {
			if e := bucket.GetExemplar(); e != nil {
				return e.GetLabel()[0].GetValue()
			}
		}
	}
	return ""
}
