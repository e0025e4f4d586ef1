package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// flushTimeout is how long a stopping process waits for the collector to receive its last spans.
const flushTimeout = 3 * time.Second

// traceFlags are the flags of components that create traces.
type traceFlags struct {
	endpoint, protocol string
	sampling           float64
}

func (f *traceFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector for traces, such as http://HOST:4317, or https:// for TLS; empty: OTEL_EXPORTER_OTLP_ENDPOINT, or no traces if that is not set")
	flags.StringVar(&f.protocol, "trace-protocol", "", "`protocol` of the collector: grpc or http/protobuf (default: OTEL_EXPORTER_OTLP_PROTOCOL, otherwise grpc)")
	flags.Float64Var(&f.sampling, "trace-sampling", 1, "`share` of traces to record, from 0 to 1, of those that begin here; an API server decides about traces that it began; 1: OTEL_TRACES_SAMPLER, or all if that is not set")
}

// trace starts tracing if it is enabled; otherwise the Tracer is nil. Call end when the process stops.
func (f *traceFlags) trace(ctx context.Context, component string, log logr.Logger, attributes ...attribute.KeyValue) (tracer *tracing.Tracer, end func(), err error) {
	provider, err := tracing.Start(ctx, tracing.Options{
		Component: component, Endpoint: f.endpoint, Protocol: f.protocol, Sampling: f.sampling, Attributes: attributes,
		Registry: metrics.Registry, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	if provider != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Info("Failed to export traces", "reason", err.Error()) }))
	}
	return provider.Tracer(), func() { provider.Stop(flushTimeout) }, nil
}

// enableExemplars enables the OpenMetrics format if there are traces, because only that format has exemplars.
func enableExemplars(tracer *tracing.Tracer) func(*manager.Options) {
	return func(options *manager.Options) {
		if tracer != nil {
			options.Metrics.HandlerOpts = append(options.Metrics.HandlerOpts, func(o *promhttp.HandlerOpts) { o.EnableOpenMetrics = true })
		}
	}
}
