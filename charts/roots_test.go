package charts_test

import (
	"slices"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRootGuardMatchesWebhookConfigCommand(t *testing.T) {
	exempt := []string{"kube-system", "kube-public", "kube-node-lease", namespace}
	service := register.Endpoint{ServiceNamespace: namespace, ServiceName: "breakwater-webhook", ServicePort: 443}
	for set, options := range map[string]register.RootOptions{
		"single":       {Options: register.Options{Core: "core", Endpoint: service}, Cells: []string{"local"}},
		"core-webhook": {Options: register.Options{Core: "europe", Endpoint: service}},
		"worker":       {Options: register.Options{Endpoint: service}, Cells: []string{"worker-1"}},
		"shares":       {Options: register.Options{Core: "shares", Endpoint: service}, Cells: []string{"shop", "bank"}},
		"single-parts": {
			Options: register.Options{Core: "core", Endpoint: service, ExemptNamespaces: []string{"kube-system", namespace}},
			Cells:   []string{"shop", "zone-a", "zone-b"},
		},
		"everything": {
			Options: register.Options{Core: "main", Endpoint: service, TimeoutSeconds: 3}, Cells: []string{"local"},
			Kinds: []schema.GroupResource{{Group: "apps.kruise.io", Resource: "clonesets"}, {Group: "argoproj.io", Resource: "rollouts"}, {Resource: "configmaps"}},
		},
	} {
		t.Run(set, func(t *testing.T) {
			options.OwnNamespace = namespace
			if options.ExemptNamespaces == nil {
				options.ExemptNamespaces = exempt
			}
			if options.TimeoutSeconds == 0 {
				options.TimeoutSeconds = 2
			}
			want, err := register.RootConfiguration(options)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := validatingWebhooks(t, set, "--set", "fullnameOverride=breakwater")["breakwater-roots"]
			if !ok {
				t.Fatal("the webhook breakwater-roots is not rendered")
			}
			if diff := cmp.Diff(want.Webhooks[0], got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
		})
	}
}

func TestRootGuardCanBeDisabled(t *testing.T) {
	if hook, ok := validatingWebhooks(t, "single", "--set", "rootGuard.mode=Off")["breakwater-roots"]; ok {
		t.Errorf("the webhook is rendered with mode Off: %+v", hook)
	}
	for mode, arguments := range map[string][]string{
		"Off":  {"--values", "breakwater/ci/single.yaml", "--set", "rootGuard.mode=Off"},
		"Warn": {"--values", "breakwater/ci/worker.yaml"},
		"Deny": {"--values", "breakwater/ci/everything.yaml", "--set", "fullnameOverride=breakwater"},
	} {
		for _, d := range objectsOfKind[appsv1.Deployment](t, render(t, arguments...), "Deployment") {
			if d.Name != "breakwater-webhook" {
				continue
			}
			got := d.Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(got, "--root-guard="+mode) {
				t.Errorf("arguments %q, want --root-guard=%s", got, mode)
			}
			if slices.Contains(got, "--on-cascade=Release") != (mode == "Deny") {
				t.Errorf("arguments %q in mode %s, want --on-cascade=Release only where the generator has it", got, mode)
			}
			if mode == "Deny" && (!slices.Contains(got, "--root-guard-owner-kinds=rollouts.argoproj.io") || !slices.Contains(got, "--root-guard-owner-kinds=configmaps")) {
				t.Errorf("arguments %q, want the owner kinds", got)
			}
		}
	}
}
