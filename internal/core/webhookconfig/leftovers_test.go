package webhookconfig

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

type clients = []admissionregistrationv1.WebhookClientConfig

func TestUnownedConfigurationsAreFoundByTheirPaths(t *testing.T) {
	url := func(address string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: &address}
	}
	service := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "breakwater-system", Name: "webhook", Path: ptr.To(path)}}
	}
	for claim, c := range map[string]struct {
		annotations map[string]string
		hooks       clients
		want        bool
	}{
		"by the path of a Service":            {nil, clients{service("/cells/worker-1/validate")}, true},
		"by the path of a URL":                {nil, clients{url("https://breakwater.example:9443/cells/worker-1/validate")}, true},
		"behind a caller token":               {nil, clients{service("/callers/0123/cells/worker-1/validate")}, true},
		"of scheduling policies":              {nil, clients{service("/cells/worker-1/schedule"), service("/cells/worker-1/schedule")}, true},
		"of two cells of the release":         {nil, clients{service("/cells/worker-1/validate"), service("/cells/worker-2/validate")}, true},
		"not of another cell":                 {nil, clients{service("/cells/worker-3/validate")}, false},
		"not of a cell with a similar name":   {nil, clients{service("/cells/my-worker-1/validate")}, false},
		"not beside a webhook of other cells": {nil, clients{service("/cells/worker-1/validate"), service("/cells/worker-3/validate")}, false},
		"not beside a webhook of others":      {nil, clients{service("/cells/worker-1/validate"), url("https://policy.example/validate")}, false},
		"not without webhooks":                {nil, nil, false},
		"not of a Helm release": {
			map[string]string{"meta.helm.sh/release-name": "other"}, clients{service("/cells/worker-1/validate")}, false,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := IsUnowned(&metav1.ObjectMeta{Name: "any", Annotations: c.annotations}, c.hooks, []string{"worker-1", "worker-2"}); got != c.want {
				t.Errorf("IsUnowned = %v, want %v", got, c.want)
			}
		})
	}
}
