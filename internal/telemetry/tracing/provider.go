package tracing

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// Options configure tracing. The OpenTelemetry variables (OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SPAN_*,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME) decide what they leave open.
type Options struct {
	// Component is the component that the process runs, such as webhook.
	Component string
	// Endpoint is the URL of a collector. If it is empty, the environment decides, which may configure none.
	Endpoint string
	// Protocol is GRPC or HTTP. If it is empty, the environment decides. The default is GRPC.
	Protocol string
	// Sampling is the fraction, from 0 to 1, of traces that start in this process to record. With 1 the environment decides, and its
	// default is all. A trace that started elsewhere is recorded if its sampled flag is set.
	Sampling float64
	// Attributes describe the process, in addition to its name and version.
	Attributes []attribute.KeyValue
	// Registry receives the metric of spans.
	Registry prometheus.Registerer
	Log      logr.Logger
}

// defaultQueueSize is the maximum number of waiting spans if OTEL_BSP_MAX_QUEUE_SIZE is not set. It is the default of the SDK.
const defaultQueueSize = 2048

// Provider sends the spans of a process.
type Provider struct {
	sdk *sdktrace.TracerProvider
	log logr.Logger
}

// Start returns a Provider, or nil if tracing is not enabled. It does not wait for the collector. An error names the invalid option or
// environment variable.
func Start(ctx context.Context, o Options) (*Provider, error) {
	on, err := isEnabled(o.Endpoint)
	if err != nil || !on {
		return nil, err
	}
	if !(o.Sampling >= 0 && o.Sampling <= 1) {
		return nil, fmt.Errorf("--trace-sampling %v: want from 0 to 1", o.Sampling)
	}
	exporter, err := newExporter(ctx, o)
	if err != nil {
		return nil, err
	}
	capacity, err := queueSize()
	if err != nil {
		return nil, err
	}
	of, err := resourceOf(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	queue := &spanQueue{capacity: int64(capacity), spans: newSpanCounter()}
	if err := o.Registry.Register(queue.spans); err != nil {
		return nil, fmt.Errorf("register the metric of spans: %w", err)
	}
	queue.SpanProcessor = sdktrace.NewBatchSpanProcessor(&countingExporter{SpanExporter: exporter, queue: queue, log: o.Log}, sdktrace.WithMaxQueueSize(capacity))
	options := []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(queue), sdktrace.WithResource(of)}
	if o.Sampling < 1 {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sampling))))
	}
	o.Log.Info("Sending traces", "endpoint", o.Endpoint, "sampling", o.Sampling)
	return &Provider{sdk: sdktrace.NewTracerProvider(options...), log: o.Log}, nil
}

// Tracer returns the tracer of the process. It is nil for a nil Provider.
func (p *Provider) Tracer() *Tracer {
	if p == nil {
		return nil
	}
	return NewTracer(p.sdk)
}

// Stop sends the remaining spans within atMost. Spans that end later are lost.
func (p *Provider) Stop(atMost time.Duration) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil {
		p.log.Info("Lost the last spans", "reason", err.Error())
	}
}

func newExporter(ctx context.Context, o Options) (sdktrace.SpanExporter, error) {
	protocol, err := protocolOf(o.Protocol)
	if err != nil {
		return nil, err
	}
	url := ""
	if o.Endpoint != "" {
		u, err := parseEndpoint(o.Endpoint, protocol)
		if err != nil {
			return nil, fmt.Errorf("--trace-endpoint %w", err)
		}
		url = u.String()
	}
	if protocol == HTTP {
		var options []otlptracehttp.Option
		if url != "" {
			options = append(options, otlptracehttp.WithEndpointURL(url))
		}
		return otlptracehttp.New(ctx, options...)
	}
	var options []otlptracegrpc.Option
	if url != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(url))
	}
	return otlptracegrpc.New(ctx, options...)
}

// queueSize reads OTEL_BSP_MAX_QUEUE_SIZE.
func queueSize() (int, error) {
	const variable = "OTEL_BSP_MAX_QUEUE_SIZE"
	value := os.Getenv(variable)
	if value == "" {
		return defaultQueueSize, nil
	}
	size, err := strconv.Atoi(value)
	if err != nil || size < 1 {
		return 0, fmt.Errorf("%s %q: want a number above 0", variable, value)
	}
	return size, nil
}

// resourceOf describes the process. The environment takes precedence.
func resourceOf(ctx context.Context, o Options) (*resource.Resource, error) {
	attributes := append([]attribute.KeyValue{
		attribute.String("service.name", "breakwater-"+o.Component), attribute.String("service.version", version.String()),
	}, o.Attributes...)
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, attribute.String("service.instance.id", host+"-"+strconv.Itoa(os.Getpid())))
	}
	return resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
}
