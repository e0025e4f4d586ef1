package generator

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// recordResult records the result of a reconciliation on the span of its source.
func recordResult(span trace.Span, ref policy.Ref, result outcome, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String(tracing.Kind, ref.Kind), attribute.String(tracing.Namespace, ref.Namespace),
		attribute.String(tracing.Name, ref.Name), attribute.String(tracing.Result, string(result)))
	tracing.RecordError(span, err)
}
