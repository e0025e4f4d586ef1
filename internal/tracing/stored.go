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
	result := "written"
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		result = "conflict"
		span.AddEvent(EventConflict)
	case err != nil:
		result = "error"
		Fail(span, err)
	}
	span.SetAttributes(attribute.String(Result, result))
}
