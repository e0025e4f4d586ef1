package webhookconfig_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestSchedulingWebhooks(t *testing.T) {
	scheduling := func(cell string, endpoint register.Endpoint) admissionregistrationv1.MutatingWebhookConfiguration {
		c, err := register.SchedulingConfiguration(register.Options{Cell: cell, Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		return *c
	}
	byURL, byService := register.Endpoint{URL: "https://b:9443"}, register.Endpoint{ServiceNamespace: "b", ServiceName: "webhook", ServicePort: 443}
	other := scheduling("a", byURL)
	address := "https://b:9443/mutate"
	nowhere := scheduling("a", byURL)
	for i := range other.Webhooks {
		other.Webhooks[i].ClientConfig.URL = &address
		nowhere.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{}
	}
	for claim, test := range map[string]struct {
		cell string
		has  []admissionregistrationv1.MutatingWebhookConfiguration
		// want is the number of configurations.
		want int
	}{
		"no webhook":                      {"a", nil, 0},
		"by an address":                   {"a", []admissionregistrationv1.MutatingWebhookConfiguration{scheduling("a", byURL)}, 1},
		"by a Service":                    {"a", []admissionregistrationv1.MutatingWebhookConfiguration{scheduling("a", byService)}, 1},
		"for another cell":                {"a", []admissionregistrationv1.MutatingWebhookConfiguration{scheduling("b", byURL), scheduling("ba", byService)}, 0},
		"for any cell":                    {"", []admissionregistrationv1.MutatingWebhookConfiguration{scheduling("a", byURL), scheduling("b", byService)}, 2},
		"for other resources":             {"", []admissionregistrationv1.MutatingWebhookConfiguration{other, nowhere}, 0},
		"for another cell, and this cell": {"b", []admissionregistrationv1.MutatingWebhookConfiguration{other, scheduling("b", byURL)}, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			want := test.want * len(other.Webhooks)
			if got := webhookconfig.SchedulingWebhooks(test.cell, test.has); len(got) != want {
				t.Errorf("%d webhooks, want %d", len(got), want)
			}
		})
	}
}
