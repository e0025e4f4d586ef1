package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TellStored notes what became of a compare-and-swap: written, conflict or error. One that another writer came before is no error.
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

// StoredAs is what became of a write: written, conflict or error.
func StoredAs(err error) string {
	switch {
	case err == nil:
		return "written"
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "conflict"
	}
	return "error"
}
