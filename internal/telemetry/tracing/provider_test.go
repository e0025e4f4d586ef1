package tracing_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/breakwater-k8s/breakwater/e2e/harness/collector"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

func start(t *testing.T, o tracing.Options) (*tracing.Provider, *prometheus.Registry, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	o.Component, o.Registry, o.Log = "webhook", registry, logr.Discard()
	provider, err := tracing.Start(t.Context(), o)
	return provider, registry, err
}

// spans returns the number of spans with a result.
func spans(t *testing.T, registry *prometheus.Registry, result string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "breakwater_trace_spans_total" && metric.GetLabel()[0].GetValue() == result {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric of spans that are %s", result)
	return 0
}

func TestTracingIsEnabledByFlagOrEnvironment(t *testing.T) {
	for claim, c := range map[string]struct {
		endpoint    string
		environment map[string]string
		want        bool
	}{
		"no request":                        {"", nil, false},
		"a flag":                            {"http://localhost:4317", nil, true},
		"the endpoint of all signals":       {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, true},
		"the endpoint of traces":            {"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4317"}, true},
		"the exporter, to its own endpoint": {"", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"a flag, and no exporter":           {"http://localhost:4317", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
		"a flag, and all is disabled":       {"http://localhost:4317", map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			for name, value := range c.environment {
				t.Setenv(name, value)
			}
			provider, _, err := start(t, tracing.Options{Endpoint: c.endpoint, Sampling: 1})
			defer provider.Stop(0)
			if err != nil || (provider != nil) != c.want || (provider.Tracer() != nil) != c.want {
				t.Errorf("provider %v, error %v", provider, err)
			}
		})
	}
}

func TestInvalidTraceOptionsAreNamed(t *testing.T) {
	const good = "http://localhost:4317"
	for claim, c := range map[string]struct {
		options     tracing.Options
		environment map[string]string
		want        string
	}{
		"no URL":                          {tracing.Options{Endpoint: "localhost:4317"}, nil, `--trace-endpoint "localhost:4317": want http://HOST:PORT`},
		"no host":                         {tracing.Options{Endpoint: "http://:4317"}, nil, `--trace-endpoint "http://:4317": want http`},
		"another scheme":                  {tracing.Options{Endpoint: "grpc://a:1"}, nil, `--trace-endpoint "grpc://a:1": want http`},
		"a password":                      {tracing.Options{Endpoint: "http://a:secret@b:1"}, nil, `--trace-endpoint "http://a:xxxxx@b:1": want no user`},
		"a query":                         {tracing.Options{Endpoint: good + "?a=b"}, nil, "want no query or fragment"},
		"a path by gRPC":                  {tracing.Options{Endpoint: good + "/v1/traces"}, nil, "want no path for grpc"},
		"an unsupported protocol":         {tracing.Options{Endpoint: good, Protocol: "http/json"}, nil, `--trace-protocol "http/json": want grpc or http/protobuf`},
		"one in the environment":          {tracing.Options{Endpoint: good}, map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "x"}, `OTEL_EXPORTER_OTLP_PROTOCOL "x": want`},
		"a share above 1":                 {tracing.Options{Endpoint: good, Sampling: 1.5}, nil, "--trace-sampling 1.5: want from 0 to 1"},
		"an unsupported exporter":         {tracing.Options{}, map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, `OTEL_TRACES_EXPORTER "zipkin": want otlp or none`},
		"a bad endpoint from outside":     {tracing.Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "a:1"}, `OTEL_EXPORTER_OTLP_ENDPOINT "a:1": want http`},
		"a queue without room":            {tracing.Options{Endpoint: good}, map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, `OTEL_BSP_MAX_QUEUE_SIZE "0": want a number`},
		"attributes that cannot be read":  {tracing.Options{Endpoint: good}, map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "a"}, "OTEL_RESOURCE_ATTRIBUTES: "},
		"a bad one of two, which is used": {tracing.Options{}, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "b", "OTEL_EXPORTER_OTLP_ENDPOINT": good}, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT "b"`},
	} {
		t.Run(claim, func(t *testing.T) {
			for name, value := range c.environment {
				t.Setenv(name, value)
			}
			if _, _, err := start(t, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestSpansReachCollector(t *testing.T) {
	taking := collector.Start(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=core-1")
	provider, registry, err := start(t, tracing.Options{
		Endpoint: "http://" + taking.Address, Sampling: 1, Attributes: []attribute.KeyValue{attribute.String(tracing.Cell, "worker-1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer().Root(t.Context(), tracing.SpanRound, time.Now())
	span.End()
	provider.Stop(time.Minute)
	got := taking.Spans()
	if len(got) != 1 || got[0].Name != tracing.SpanRound || got[0].Service != "breakwater-webhook" {
		t.Fatalf("the collector has %+v", got)
	}
	for key, want := range map[string]string{"k8s.cluster.name": "core-1", tracing.Cell: "worker-1"} {
		if value := got[0].Resource[key].GetStringValue(); value != want {
			t.Errorf("%s is %q, want %q", key, value, want)
		}
	}
	if got[0].Resource["service.version"].GetStringValue() == "" {
		t.Error("the resource has no version")
	}
	if n := spans(t, registry, "exported"); n != 1 {
		t.Errorf("%v spans are counted", n)
	}
}

func TestFractionOfTracesIsRecorded(t *testing.T) {
	provider, _, err := start(t, tracing.Options{Endpoint: "http://localhost:4317", Sampling: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop(0)
	recorded := 0
	for range 4000 {
		if _, span := provider.Tracer().Root(t.Context(), tracing.SpanRound, time.Now()); span.IsRecording() {
			recorded++
		}
	}
	if recorded < 800 || recorded > 1200 { // seven standard deviations
		t.Errorf("%d of 4000 are recorded, want about 1000", recorded)
	}
}

// hanging returns the address of a server that accepts connections and never responds.
func hanging(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestHangingCollectorDelaysNoRequest(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
	provider, registry, err := start(t, tracing.Options{Endpoint: "http://" + hanging(t), Sampling: 1})
	if err != nil {
		t.Fatal(err)
	}
	const number = 10_000
	began := time.Now()
	for range number {
		_, span := provider.Tracer().Root(t.Context(), tracing.SpanRound, time.Now())
		span.End()
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d spans took %s", number, took)
	}
	if dropped := spans(t, registry, "dropped"); dropped != number-100 {
		t.Errorf("%v spans are dropped, want all but the 100 that there is room for", dropped)
	}
	began = time.Now()
	provider.Stop(50 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// A failed export makes room in the outbox.
func TestDroppedSpansAreCounted(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100")
	provider, registry, err := start(t, tracing.Options{Endpoint: "http://" + hanging(t), Sampling: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop(0)
	for failed := range 2 {
		testplane.Eventually(t, func() string {
			if spans(t, registry, "failed") > float64(failed) {
				return ""
			}
			_, span := provider.Tracer().Root(t.Context(), tracing.SpanRound, time.Now())
			span.End()
			return "no span has failed"
		})
	}
}
