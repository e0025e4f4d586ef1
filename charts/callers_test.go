package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/controllers/certificates"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// clientConfigs returns the client configurations by the names of configuration and webhook, and the annotations by configuration.
func clientConfigs(t *testing.T, objects []*unstructured.Unstructured) (all map[string]admissionregistrationv1.WebhookClientConfig, annotations map[string]map[string]string) {
	t.Helper()
	all, annotations = map[string]admissionregistrationv1.WebhookClientConfig{}, map[string]map[string]string{}
	for _, c := range objectsOfKind[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration") {
		annotations[c.Name] = c.Annotations
		for _, w := range c.Webhooks {
			all[c.Name+" "+w.Name] = w.ClientConfig
		}
	}
	for _, c := range objectsOfKind[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration") {
		annotations[c.Name] = c.Annotations
		for _, w := range c.Webhooks {
			all[c.Name+" "+w.Name] = w.ClientConfig
		}
	}
	return all, annotations
}

func callerSecret(t *testing.T, objects []*unstructured.Unstructured) *corev1.Secret {
	t.Helper()
	for _, s := range objectsOfKind[corev1.Secret](t, objects, "Secret") {
		if s.Name == "breakwater-webhook-callers" {
			return s
		}
	}
	return nil
}

// A component adds a path with a token to configurations without a path, and only to those. So the chart renders none.
func TestPathsAreOmittedWhenCallerTokensAreRequired(t *testing.T) {
	const set = "breakwater/ci/callers.yaml"
	off := render(t, "--values", set, "--set-string", "webhook.callerTokens.mode=Off")
	permissive := render(t, "--values", set, "--set", "webhook.callerTokens.mode=Permissive")
	required := render(t, "--values", set)
	paths, _ := clientConfigs(t, off)
	if len(paths) != 8 || callerSecret(t, off) != nil || deployment(t, off, "breakwater-callers") != nil {
		t.Errorf("Off renders %d webhooks, want 8 and no Secret and no component of tokens", len(paths))
	}
	same, _ := clientConfigs(t, permissive)
	if diff := cmp.Diff(paths, same); diff != "" {
		t.Errorf("Permissive changes configurations (-Off +Permissive):\n%s", diff)
	}
	without, annotations := clientConfigs(t, required)
	for name, client := range without {
		configuration, _, _ := strings.Cut(name, " ")
		if client.Service == nil || client.Service.Path != nil {
			t.Errorf("%s has the client %+v, want a Service without a path", name, client)
		}
		if got, want := annotations[configuration][webhookconfig.AnnotationCallerPath], *paths[name].Service.Path; got != want {
			t.Errorf("%s has the annotation %q, want %q", name, got, want)
		}
	}
	for mode, objects := range map[string][]*unstructured.Unstructured{"Permissive": permissive, "Required": required} {
		secret := callerSecret(t, objects)
		if secret == nil || len(secret.Data)+len(secret.StringData) > 0 || secret.Annotations[certificates.AnnotationCallerTokens] != mode {
			t.Errorf("%s: Secret %+v, want an empty one with the mode", mode, secret)
		}
		component := deployment(t, objects, "breakwater-callers")
		if component == nil {
			t.Fatalf("%s: no Deployment adds tokens", mode)
		}
		arguments := component.Spec.Template.Spec.Containers[0].Args
		for _, want := range []string{
			"--caller-keys=breakwater-system/breakwater-webhook-callers", "--caller-overlap=12h", "--spread=3m", "--webhook-configuration=breakwater-core", "--webhook-configuration=breakwater-roots",
			"--webhook-configuration=breakwater-cell-shop", "--mutating-webhook-configuration=breakwater-scheduling-bank",
		} {
			if !slices.Contains(arguments, want) {
				t.Errorf("%s: arguments %q lack %s", mode, arguments, want)
			}
		}
	}
	// A Deployment that restarts when the mode changes would be unavailable while configurations have no path.
	for _, name := range []string{"breakwater-callers", "breakwater-webhook"} {
		if diff := cmp.Diff(deployment(t, permissive, name), deployment(t, required, name)); diff != "" {
			t.Errorf("%s (-Permissive +Required):\n%s", name, diff)
		}
	}
	webhook := deployment(t, required, "breakwater-webhook").Spec.Template.Spec
	if !slices.Contains(webhook.Containers[0].Args, "--caller-keys=/etc/breakwater/callers") ||
		!slices.ContainsFunc(webhook.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == "breakwater-webhook-callers"
		}) {
		t.Errorf("the webhook does not read the keys: %+v", webhook)
	}
}

func TestGivenCallerTokensAreInTheURL(t *testing.T) {
	const token = "0123456789012345678901234567890123456789"
	all, _ := clientConfigs(t, render(t, "--values", "breakwater/ci/worker-remote-webhook.yaml", "--set", "webhook.callerTokens.given.cells/worker-1="+token))
	for name, client := range all {
		gotToken, path := webhookconfig.CallerTokenOf(&client)
		if gotToken != token || webhookconfig.CallerScope(path) != "cells/worker-1" || !strings.HasPrefix(*client.URL, "https://breakwater.europe.example:443/callers/") {
			t.Errorf("webhook %s has URL %s, want the token before the path", name, *client.URL)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d webhooks, want 2: of removals and of roots", len(all))
	}
}

func networkPolicies(t *testing.T, arguments ...string) []*networkingv1.NetworkPolicy {
	t.Helper()
	return objectsOfKind[networkingv1.NetworkPolicy](t, render(t, append([]string{"--values", "breakwater/ci/single.yaml"}, arguments...)...), "NetworkPolicy")
}

func TestOnlyAPIServersReachTheWebhookWhereTheyAreNamed(t *testing.T) {
	if got := networkPolicies(t); len(got) != 0 {
		t.Errorf("%d policies without addresses, want none", len(got))
	}
	const from = "networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.0.2/32"
	if got := networkPolicies(t, "--set", from+",networkPolicy.enabled=false"); len(got) != 0 {
		t.Errorf("%d policies where they are turned off, want none", len(got))
	}
	got := networkPolicies(t, "--set", from)
	if len(got) != 1 {
		t.Fatalf("%d policies with addresses, want 1", len(got))
	}
	for _, rule := range got[0].Spec.Ingress {
		ports := map[int32]bool{}
		for _, port := range rule.Ports {
			ports[port.Port.IntVal] = true
		}
		switch {
		case ports[9443]:
			if len(rule.Ports) != 1 || len(rule.From) != 3 || rule.From[0].IPBlock == nil || rule.From[0].IPBlock.CIDR != "10.0.0.2/32" {
				t.Errorf("reviews are allowed from %+v, want the address, the replicas and helm test", rule.From)
			}
			for _, peer := range rule.From[1:] {
				if peer.PodSelector == nil || len(peer.PodSelector.MatchLabels) != 3 || peer.NamespaceSelector != nil {
					t.Errorf("reviews are also allowed from %+v", peer)
				}
			}
		case len(rule.From) > 0:
			t.Errorf("ports %v are restricted to %+v", ports, rule.From)
		}
	}
	for _, rule := range networkPolicies(t, "--set", "networkPolicy.enabled=true")[0].Spec.Ingress {
		if len(rule.From) > 0 {
			t.Errorf("without addresses, ports are restricted to %+v", rule.From)
		}
	}
}

func TestNotesWarnAboutUnrestrictedCallers(t *testing.T) {
	const unauthenticated, open, counted, bypassed = "does not authenticate its callers", "networkPolicy.webhookFrom is empty", "mode is Permissive", "webhook.hostNetwork is true"
	const from = "networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.0.2/32"
	for claim, c := range map[string]struct {
		set  []string
		want []string
	}{
		"by default":           {nil, []string{unauthenticated, open}},
		"client certificates":  {[]string{"webhook.clientCASecret=a"}, []string{open}},
		"tokens are counted":   {[]string{"webhook.callerTokens.mode=Permissive"}, []string{open, counted}},
		"tokens and addresses": {[]string{"webhook.callerTokens.mode=Required", from}, nil},
		"host network":         {[]string{"webhook.callerTokens.mode=Required", from, "webhook.hostNetwork=true"}, []string{bypassed}},
	} {
		t.Run(claim, func(t *testing.T) {
			arguments := []string{"install", "breakwater", "breakwater", "--namespace", namespace, "--dry-run=client", "--values", "breakwater/ci/single.yaml"}
			for _, set := range c.set {
				arguments = append(arguments, "--set", set)
			}
			out, err := helm(t, arguments...)
			if err != nil {
				t.Fatal(err)
			}
			_, notes, _ := strings.Cut(out, "NOTES:")
			for _, text := range []string{unauthenticated, open, counted, bypassed} {
				if got, want := strings.Contains(notes, text), slices.Contains(c.want, text); got != want {
					t.Errorf("notes say %q: %v, want %v:\n%s", text, got, want, notes)
				}
			}
		})
	}
}
