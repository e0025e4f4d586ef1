package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"
)

// WrapConfig makes the clients of a configuration send their span context to API servers.
func (t *Tracer) WrapConfig(config *rest.Config) {
	if t != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	}
}

// InjectHeaders writes the span context of ctx, if any, to the headers of a request.
func InjectHeaders(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(request.Context()).IsValid() {
		request = request.Clone(request.Context()) // a RoundTripper must not modify the request
		InjectHeaders(request.Context(), request.Header)
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go close idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
