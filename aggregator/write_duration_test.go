package aggregator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Each write is timed by its result, and has an exemplar that refers to its trace.
func TestWriteDurationIsRecorded(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var fault error
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	core := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).WithStatusSubresource(p).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if fault != nil {
				return fault
			}
			return c.SubResource(sub).Update(ctx, object, options...)
		},
	}).Build()
	registry := prometheus.NewRegistry()
	tracer := tracing.NewTracer(sdktrace.NewTracerProvider())
	rounds := &roundTracer{tracer: tracer}
	r := &reconciler{writes: statusWrites{
		metrics:    newMetrics(registry),
		protectors: &clusters.Protectors{Cache: core, Live: core, Writer: core, RestoreDetector: &clusters.RestoreDetector{}},
	}}
	traces := map[string]string{}
	for result, becomes := range map[string]error{
		"written":  nil,
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "podprotectors"}, "web", errors.New("the object has been modified")),
		"error":    errors.New("connection refused"),
	} {
		fault = becomes
		if err := core.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		ctx, span := tracer.Root(t.Context(), tracing.SpanRound, time.Now())
		store := func(ctx context.Context) error { return r.storeStatus(ctx, p) }
		if err := rounds.store(ctx, &quota.Settled{}, store); (err == nil) != (becomes == nil) {
			t.Fatalf("%s: %v", result, err)
		}
		span.End()
		traces[result] = span.SpanContext().TraceID().String()
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, family := range families {
		if family.GetName() != "breakwater_aggregator_write_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if n := metric.GetHistogram().GetSampleCount(); n != 1 {
				t.Errorf("%v: %d writes, want 1", metric.GetLabel(), n)
			}
			seen[metric.GetLabel()[0].GetValue()] = exemplarOf(metric)
		}
	}
	for result, trace := range traces {
		if seen[result] != trace || trace == "" {
			t.Errorf("the exemplar of %s is of trace %q, want %q", result, seen[result], trace)
		}
	}
	if len(seen) != len(traces) {
		t.Errorf("results %v", seen)
	}
}

func exemplarOf(metric *dto.Metric) string {
	for _, bucket := range metric.GetHistogram().GetBucket() {
		if e := bucket.GetExemplar(); e != nil {
			return e.GetLabel()[0].GetValue()
		}
	}
	return ""
}
