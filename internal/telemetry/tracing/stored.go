package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TellStored records the result of a compare-and-swap on a span: written, conflict or error. A conflict is not an error.
func TellStored(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	result := StoredAs(err)
	switch result {
	case "conflict":
		span.AddEvent(EventConflict)
	case "error":
		Fail(span, err)
	}
	span.SetAttributes(attribute.String(Result, result))
}

// StoredAs returns the result of a write: written, conflict or error. A missing object counts as a conflict.
func StoredAs(err error) string {
	switch {
	case err == nil:
		return "written"
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "conflict"
	}
	return "error"
}
