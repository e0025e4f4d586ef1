package webhookconfig_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestRootGuardPath(t *testing.T) {
	for want, place := range map[string]struct {
		core  string
		cells []string
	}{
		"/roots/cores/core":                      {"core", nil},
		"/roots/cells/worker-1":                  {"", []string{"worker-1"}},
		"/roots/cores/core/cells/local":          {"core", []string{"local"}},
		"/roots/cells/a/b":                       {"", []string{"a", "b"}},
		"/roots/cores/cells/cells/cores/cells":   {"cells", []string{"cores", "cells"}},
		"/roots/cores/cores/cells/zone-a/zone-b": {"cores", []string{"zone-a", "zone-b"}},
	} {
		path := webhookconfig.RootGuardPath(place.core, place.cells...)
		if path != want {
			t.Errorf("RootGuardPath(%q, %q) = %q, want %q", place.core, place.cells, path, want)
		}
		core, cells, ok := webhookconfig.ParseRootGuardPath(strings.TrimPrefix(path, "/roots/"))
		if core != place.core || !slices.Equal(cells, place.cells) || !ok {
			t.Errorf("ParseRootGuardPath() of %s = %q, %q, %v; want %q, %q", path, core, cells, ok, place.core, place.cells)
		}
	}
	for _, path := range []string{"", "cores/", "cells/", "cells", "cores/a/b", "cells/a//b", "rings/a", "cores/a/rings/b"} {
		if core, cells, ok := webhookconfig.ParseRootGuardPath(path); ok {
			t.Errorf("ParseRootGuardPath(%q) = %q, %q, want ok = false", path, core, cells)
		}
	}
}

func TestRootGuardWebhooks(t *testing.T) {
	hook := func(url string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: url, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
			Rules: []admissionregistrationv1.RuleWithOperations{
				{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}},
				},
				{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*"}},
				},
			},
		}
	}
	found := webhookconfig.RootGuardWebhooks([]admissionregistrationv1.ValidatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.ValidatingWebhook{
		hook("https://a:1/cells/a/validate"), hook("https://a:1/base/roots/cores/main/cells/a/b"), hook("https://a:1/roots/none"),
	}}})
	if len(found) != 1 || found[0].Core != "main" || !slices.Equal(found[0].Cells, []string{"a", "b"}) {
		t.Fatalf("RootGuardWebhooks() = %+v, want the one of core main with the cells a and b", found)
	}
	shop := map[string]string{"team": "shop"}
	for claim, c := range map[string]struct {
		group, resource string
		namespace       map[string]string
		want            bool
	}{
		"its resource":                            {"apps", "deployments", shop, true},
		"another resource":                        {"apps", "statefulsets", shop, false},
		"another group":                           {"example.com", "deployments", shop, false},
		"another namespace":                       {"apps", "deployments", map[string]string{}, false},
		"an object without a namespace":           {"apps", "deployments", nil, true},
		"a resource with a rule for updates only": {"", "namespaces", shop, false},
	} {
		if got := found[0].IsCalledFor(schema.GroupResource{Group: c.group, Resource: c.resource}, c.namespace); got != c.want {
			t.Errorf("IsCalledFor() %s = %v, want %v", claim, got, c.want)
		}
	}
}
