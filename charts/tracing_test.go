package charts_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// tracedComponents returns the components that send traces.
func tracedComponents() []string { return []string{"webhook", "aggregator", "generator"} }

func TestTracingIsDisabledByDefault(t *testing.T) {
	forEachValueSet(t, func(t *testing.T, set string) {
		for name, template := range podTemplates(t, render(t, "--values", set, "--set", "tracing.endpoint=")) {
			c := template.Spec.Containers[0]
			if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--trace-") }) ||
				slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return strings.HasPrefix(e.Name, "OTEL_") }) {
				t.Errorf("%s: arguments %q, environment %v", name, c.Args, c.Env)
			}
		}
	})
}

func TestTracedComponentsGetTheCollectorEndpoint(t *testing.T) {
	configured := map[string]bool{}
	for name, template := range podTemplates(t, render(t, "--values", "breakwater/ci/everything.yaml")) {
		c := template.Spec.Containers[0]
		headers := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "OTEL_EXPORTER_OTLP_HEADERS" })
		endpoint := slices.Contains(c.Args, "--trace-endpoint=https://collector.observability:4318")
		if endpoint != slices.Contains(tracedComponents(), c.Name) || endpoint != (headers >= 0) {
			t.Errorf("%s: arguments %q, environment %v", name, c.Args, c.Env)
		}
		if !endpoint {
			continue
		}
		configured[c.Name] = true
		if !slices.Contains(c.Args, "--trace-protocol=http/protobuf") || !slices.Contains(c.Args, "--trace-sampling=0.01") ||
			c.Env[headers].ValueFrom.SecretKeyRef.Name != "collector" {
			t.Errorf("%s: arguments %q, environment %v", name, c.Args, c.Env)
		}
	}
	if len(configured) != len(tracedComponents()) {
		t.Errorf("only %v have trace flags", configured)
	}
}
