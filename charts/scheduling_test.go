package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// mutatingConfigurations returns the MutatingWebhookConfigurations of a value set.
func mutatingConfigurations(t *testing.T, set string) map[string]*admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	all := map[string]*admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, c := range objectsOfKind[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, "--values", "breakwater/ci/"+set+".yaml"), "MutatingWebhookConfiguration") {
		all[c.Name] = c
	}
	return all
}

// The chart renders the same configurations as breakwater webhook-config --scheduling.
func TestSchedulingConfigurationsMatchWebhookConfigCommand(t *testing.T) {
	defaults := []string{"kube-system", "kube-public", "kube-node-lease", namespace}
	service := register.Endpoint{ServiceNamespace: namespace, ServiceName: "breakwater-webhook", ServicePort: 443}
	only := func(namespaces ...string) []string { return namespaces }
	for _, c := range []struct {
		set, name string
		options   register.Options
		// more has additional namespaces to which the configuration is restricted, besides those of the cell.
		more []string
	}{
		{"scheduling-worker", "breakwater-scheduling-worker-1", register.Options{Cell: "worker-1", Endpoint: service, ExemptNamespaces: defaults}, nil},
		{"scheduling-remote", "breakwater-scheduling-worker-1", register.Options{
			Cell: "worker-1", Endpoint: register.Endpoint{URL: "https://breakwater.europe.example:443"}, ExemptNamespaces: defaults,
		}, nil},
		{"scheduling", "breakwater-scheduling-shop", register.Options{
			Cell: "shop", Namespaces: only("shop", "bank"), Endpoint: service, ExemptNamespaces: only("kube-system", "cert-manager", namespace),
		}, only("shop")},
		{"scheduling", "breakwater-scheduling-zone-a", register.Options{
			Cell: "zone-a", Endpoint: service, ExemptNamespaces: only("kube-system", "cert-manager", namespace),
		}, only("shop")},
		{"everything", "breakwater-tide-scheduling-local", register.Options{
			Cell: "local", ExemptNamespaces: defaults, TimeoutSeconds: 3, FailurePolicy: admissionregistrationv1.Fail,
			Endpoint: register.Endpoint{ServiceNamespace: namespace, ServiceName: "breakwater-tide-webhook", ServicePort: 443},
		}, nil},
	} {
		t.Run(c.set+" "+c.name, func(t *testing.T) {
			if c.options.TimeoutSeconds == 0 {
				c.options.TimeoutSeconds = 2
			}
			want, err := register.SchedulingConfiguration(c.options)
			if err != nil {
				t.Fatal(err)
			}
			if c.more != nil {
				selector := want.Webhooks[0].NamespaceSelector
				selector.MatchExpressions = append(selector.MatchExpressions, selector.MatchExpressions[0])
				last := &selector.MatchExpressions[len(selector.MatchExpressions)-1]
				last.Operator, last.Values = "In", c.more
			}
			got := mutatingConfigurations(t, c.set)[c.name]
			if got == nil {
				t.Fatalf("the configuration is not rendered, only %v", mutatingConfigurations(t, c.set))
			}
			if c.set == "scheduling-remote" {
				for i := range got.Webhooks {
					if len(got.Webhooks[i].ClientConfig.CABundle) == 0 {
						t.Errorf("%s has no CA", got.Webhooks[i].Name)
					}
					got.Webhooks[i].ClientConfig.CABundle = nil
				}
			}
			if diff := cmp.Diff(want.Webhooks, got.Webhooks); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			if got.Annotations["argocd.argoproj.io/sync-wave"] != "10" {
				t.Errorf("annotations %v", got.Annotations)
			}
		})
	}
}

func TestSchedulingIsDisabledByDefault(t *testing.T) {
	forEachValueSet(t, func(t *testing.T, set string) {
		objects := render(t, "--values", set, "--set", "webhook.scheduling.enabled=false")
		if all := objectsOfKind[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration"); len(all) > 0 {
			t.Errorf("%s sends reviews of pod creations", all[0].Name)
		}
		for name, template := range podTemplates(t, objects) {
			if slices.Contains(template.Spec.Containers[0].Args, "--scheduling") {
				t.Errorf("%s answers reviews of pod creations", name)
			}
		}
	})
}

// An API server that sends reviews needs a webhook that answers, and must trust it.
func TestSchedulingConfigurationsHaveAWebhookThatAnswers(t *testing.T) {
	for set, want := range map[string]struct {
		runs, injected, given bool
		test                  []string
	}{
		"everything":        {runs: true, injected: true, test: []string{"--scheduling-configuration=breakwater-tide-scheduling-local"}},
		"scheduling":        {runs: true, test: []string{"--scheduling-configuration=breakwater-scheduling-shop", "--scheduling-configuration=breakwater-scheduling-zone-a"}},
		"scheduling-worker": {runs: true, injected: true, test: []string{"--scheduling-configuration=breakwater-scheduling-worker-1"}},
		"scheduling-remote": {given: true, test: []string{"--scheduling-configuration=breakwater-scheduling-worker-1"}},
		"scheduling-core":   {},
	} {
		t.Run(set, func(t *testing.T) {
			objects := render(t, "--values", "breakwater/ci/"+set+".yaml")
			runs := false
			for _, template := range podTemplates(t, objects) {
				arguments := template.Spec.Containers[0].Args
				runs = runs || arguments[0] == "webhook" && slices.Contains(arguments, "--scheduling")
			}
			if runs != want.runs {
				t.Errorf("a webhook with --scheduling runs: %v", runs)
			}
			all := mutatingConfigurations(t, set)
			if len(all) != len(want.test) {
				t.Errorf("%d configurations, helm test checks %q", len(all), want.test)
			}
			for name, c := range all {
				injected, given := c.Annotations["cert-manager.io/inject-ca-from"] != "", len(c.Webhooks[0].ClientConfig.CABundle) > 0
				if injected != want.injected || given != want.given {
					t.Errorf("%s: injected %v, given %v", name, injected, given)
				}
			}
			if got := helmTestArguments(t, set); !slices.Equal(got, want.test) {
				t.Errorf("helm test checks %q, want %q", got, want.test)
			}
		})
	}
	arguments := deployment(t, render(t, "--values", "breakwater/ci/scheduling.yaml"), "breakwater-certificates").Spec.Template.Spec.Containers[0].Args
	for _, name := range []string{"shop", "zone-a"} {
		if !slices.Contains(arguments, "--mutating-webhook-configuration=breakwater-scheduling-"+name) {
			t.Errorf("the component certificates does not inject the CA: arguments %q", arguments)
		}
	}
}

// helmTestArguments returns the arguments of helm test for scheduling.
func helmTestArguments(t *testing.T, set string) (found []string) {
	t.Helper()
	for _, pod := range objectsOfKind[corev1.Pod](t, render(t, "--values", "breakwater/ci/"+set+".yaml"), "Pod") {
		for _, argument := range pod.Spec.Containers[0].Args {
			if strings.HasPrefix(argument, "--scheduling-configuration=") {
				found = append(found, argument)
			}
		}
	}
	return found
}
