// Package collector is an OpenTelemetry collector for tests. It receives spans over gRPC and stores them.
package collector

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector stores the spans that it receives.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer
	// Address is its HOST:PORT.
	Address string

	mu    sync.Mutex
	spans []Span
}

// Span is a received span with its resource. IDs are hexadecimal. Parent is empty for a root span.
type Span struct {
	Service, Name, Trace, ID, Parent string
	// Links are the IDs of linked spans, and Events the names of the span's events.
	Links, Events []string
	// Attributes are the attributes of the span, and Resource those of the process.
	Attributes, Resource map[string]*commonv1.AnyValue
	// Began and Ended are Unix times in nanoseconds.
	Began, Ended uint64
}

// Start starts a Collector that runs until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() {
		if err := server.Serve(listener); err != nil {
			t.Errorf("the collector: %v", err)
		}
	}()
	t.Cleanup(server.Stop)
	return c
}

// Export implements the OTLP trace service.
func (c *Collector) Export(_ context.Context, sent *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range sent.GetResourceSpans() {
		resource := attributes(from.GetResource().GetAttributes())
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, read(span, resource))
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Spans returns the received spans in any order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func read(span *tracev1.Span, resource map[string]*commonv1.AnyValue) Span {
	s := Span{
		Service: resource["service.name"].GetStringValue(), Name: span.GetName(), Resource: resource, Attributes: attributes(span.GetAttributes()),
		Trace: hex.EncodeToString(span.GetTraceId()), ID: hex.EncodeToString(span.GetSpanId()), Parent: hex.EncodeToString(span.GetParentSpanId()),
		Began: span.GetStartTimeUnixNano(), Ended: span.GetEndTimeUnixNano(),
	}
	for _, link := range span.GetLinks() {
		s.Links = append(s.Links, hex.EncodeToString(link.GetSpanId()))
	}
	for _, event := range span.GetEvents() {
		s.Events = append(s.Events, event.GetName())
	}
	return s
}

func attributes(all []*commonv1.KeyValue) map[string]*commonv1.AnyValue {
	byKey := map[string]*commonv1.AnyValue{}
	for _, a := range all {
		byKey[a.GetKey()] = a.GetValue()
	}
	return byKey
}
