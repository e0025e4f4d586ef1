package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RecordWriteResult records the result of a compare-and-swap on a span: written, conflict or error. A conflict is not an error.
func RecordWriteResult(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	result := WriteResult(err)
	switch result {
	case "conflict":
		span.AddEvent(EventConflict)
	case "error":
		RecordError(span, err)
	}
	span.SetAttributes(attribute.String(Result, result))
}

// WriteResult returns the result of a write: written, conflict or error. A missing object counts as a conflict.
func WriteResult(err error) string {
	switch {
	case err == nil:
		return "written"
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "conflict"
	}
	return "error"
}
