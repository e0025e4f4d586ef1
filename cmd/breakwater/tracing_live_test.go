package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/collector"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// The test deletes a pod in a cell that is its own core and whose API server exports traces. It runs the whole program, and a collector
// receives the spans of both.
func TestDeletionIsOneTrace(t *testing.T) {
	taking := collector.Start(t)
	config := testplane.WithTracing(t, taking.Address)
	admin, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	pod := protectedPod(t, admin)
	certFile, keyFile := writeCertificate(t)
	address, health, metrics, kubeconfig := testplane.FreeAddress(t), testplane.FreeAddress(t), testplane.FreeAddress(t), writeKubeconfig(t, config)
	stop := runProgram(t, "webhook", "--core", "core="+kubeconfig, "--cell", "local="+kubeconfig, "--trace-endpoint", "http://"+taking.Address,
		"--listen", address, "--tls-cert", certFile, "--tls-key", keyFile, "--health-listen", health, "--metrics-listen", metrics)
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	printed, err := commandOutput(t, "webhook-config", "--cell", "local", "--url", "https://"+address, "--ca-bundle", certFile, "--timeout", "20")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range documents(t, printed) {
		mustCreate(t, admin, object)
	}
	eventually(t, "the apiserver asks", func() string {
		if err := admin.Delete(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
			return err.Error()
		}
		return fetch("http://"+metrics+"/metrics", "breakwater_webhook_reviews_total{")
	})
	if err := admin.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	exemplars := wantExemplars(t, "http://"+metrics+"/metrics")
	stop() // the program then exports its last spans
	eventually(t, "it is one trace", func() string {
		trace, wrong := traceOfDeletion(taking.Spans())
		if wrong == "" && !slices.Contains(exemplars, trace) {
			return fmt.Sprintf("no exemplar of trace %s, got those of %q", trace, exemplars)
		}
		return wrong
	})
}

// protectedPod creates a protected pod whose removal is within the budget.
func protectedPod(t *testing.T, admin client.Client) *corev1.Pod {
	t.Helper()
	web := map[string]string{"app": "web"}
	mustCreate(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.PodProtectorSpec{
		Selector: &v1alpha1.PodSelector{MatchLabels: web}, MinAvailable: v1alpha1.Pods(1),
	}}
	mustCreate(t, admin, p)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "local", Aggregation: v1alpha1.Aggregation{
		TotalReplicas: 3, AvailableReplicas: 3, CountedReplicas: 3, ReadyReplicas: 3, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", Epoch: 1,
		LastEventTime: metav1.NowMicro(),
	}}}
	quota.Summarize(p)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: web}, Spec: corev1.PodSpec{
		NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	mustCreate(t, admin, pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, object := range []client.Object{p, pod} {
		if err := admin.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return pod
}

func mustCreate(t *testing.T, admin client.Client, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// traceOfDeletion returns the trace of the admitted removal, and what is wrong with it.
func traceOfDeletion(all []collector.Span) (trace, wrong string) {
	of := func(name, parent string) *collector.Span {
		for i, s := range all {
			if s.Trace == trace && strings.HasPrefix(s.Name, name) && (parent == "" || s.Parent == parent) {
				return &all[i]
			}
		}
		return nil
	}
	for _, s := range all {
		if s.Name == tracing.SpanReview && s.Attributes[tracing.Verdict].GetStringValue() == "Reserved" {
			trace = s.Trace
		}
	}
	if trace == "" {
		return "", fmt.Sprintf("%d spans, want one of an admitted review", len(all))
	}
	review, deletion := of(tracing.SpanReview, ""), of("DELETE /api/v1/namespaces/{:namespace}/pods/{:name}", "")
	if deletion == nil || review == nil || deletion.Service != "apiserver" || review.Service != "breakwater-webhook" || !isDescendant(all, *review, deletion.ID) {
		return trace, fmt.Sprintf("review is not a descendant of the API server's deletion span: %+v, %+v", review, deletion)
	}
	reserve := of(tracing.SpanReserve, review.ID)
	if reserve == nil {
		return trace, "nothing was reserved"
	}
	flight := of(tracing.SpanBatch, reserve.ID)
	if flight == nil || !slices.Contains(flight.Links, reserve.ID) || !slices.Contains(reserve.Links, flight.ID) {
		return trace, fmt.Sprintf("batch span is not linked: %+v, %+v", reserve, flight)
	}
	write := of(tracing.SpanWrite, flight.ID)
	if write == nil {
		return trace, "nothing was written"
	}
	const put = "PUT /apis/breakwater.dev/v1alpha1/namespaces/{:namespace}/podprotectors/{:name}/status"
	if stored := of(put, write.ID); stored == nil || stored.Service != "apiserver" {
		return trace, fmt.Sprintf("the core's API server did not continue the trace of the write: %+v", stored)
	}
	return trace, ""
}

// isDescendant reports whether the span above is an ancestor of a span.
func isDescendant(all []collector.Span, s collector.Span, above string) bool {
	for s.Parent != "" {
		if s.Parent == above {
			return true
		}
		at := slices.IndexFunc(all, func(other collector.Span) bool { return other.Trace == s.Trace && other.ID == s.Parent })
		if at < 0 {
			return false
		}
		s = all[at]
	}
	return false
}

// wantExemplars reads metrics as Prometheus does, and checks that the text format is unchanged. It returns the traces of the exemplars
// of review durations.
func wantExemplars(t *testing.T, url string) (traces []string) {
	t.Helper()
	text, kind := scrape(t, url, "text/plain;version=0.0.4")
	if !strings.HasPrefix(kind, "text/plain; version=0.0.4") || strings.Contains(text, "# {") || strings.Contains(text, "# EOF") {
		t.Errorf("text format has exemplars: %s", kind)
	}
	open, kind := scrape(t, url, "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5")
	if !strings.HasPrefix(kind, "application/openmetrics-text") {
		t.Fatalf("requested OpenMetrics, got %s", kind)
	}
	if before, now := samplesOf(text), samplesOf(open); !maps.Equal(before, now) {
		t.Errorf("both formats must have the same samples:\n%v\n%v", before, now)
	}
	for _, found := range regexp.MustCompile(`(?m)^breakwater_webhook_review_duration_seconds_bucket\{.*# \{trace_id="([0-9a-f]{32})"\}`).FindAllStringSubmatch(open, -1) {
		traces = append(traces, found[1])
	}
	if !regexp.MustCompile(`(?m)^breakwater_webhook_flight_size_bucket\{.*# \{trace_id="[0-9a-f]{32}"\}`).MatchString(open) {
		t.Error("batch size has no exemplar")
	}
	return traces
}

func scrape(t *testing.T, url, accept string) (body, contentType string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content), response.Header.Get("Content-Type")
}

// samplesOf returns the names of samples.
func samplesOf(metrics string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "#") {
			names[strings.FieldsFunc(line, func(r rune) bool { return r == '{' || r == ' ' })[0]] = true
		}
	}
	return names
}
