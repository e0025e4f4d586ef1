package generator

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

func newTracer(spans sdktrace.SpanProcessor) *tracing.Tracer {
	return tracing.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
}

// missingSpan returns what is missing from the spans of a Deployment for the wanted outcome.
func (g *generator) missingSpan(name string, want outcome) string {
	seen := 0
	for _, span := range g.spans.Ended() {
		attributes := attribute.NewSet(span.Attributes()...)
		of, _ := attributes.Value(tracing.Name)
		kind, _ := attributes.Value(tracing.Kind)
		result, _ := attributes.Value(tracing.Result)
		if span.Name() == tracing.SpanReconcile && of.AsString() == name && kind.AsString() == "Deployment" && result.AsString() == string(want) {
			return ""
		}
		seen++
	}
	return fmt.Sprintf("none of %d spans reports that Deployment %s is %s", seen, name, want)
}
