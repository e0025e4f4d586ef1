package webhookconfig_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestCallerScope(t *testing.T) {
	for path, want := range map[string]string{
		webhookconfig.RemovalPath("a"):                "cells/a",
		webhookconfig.SchedulePath("a"):               "cells/a",
		webhookconfig.CorePath("c"):                   "cores/c",
		webhookconfig.RootGuardPath("", "a"):          "cells/a",
		webhookconfig.RootGuardPath("c", "a", "b"):    "cores/c/cells/a/b",
		webhookconfig.RootGuardPath("", "validate"):   "cells/validate",
		webhookconfig.RemovalPath("validate"):         "cells/validate",
		webhookconfig.RootGuardPath("c"):              "cores/c",
		"/":                                           "",
		webhookconfig.RootGuardPath("", "a", "other"): "cells/a/other",
	} {
		if got := webhookconfig.CallerScope(path); got != want {
			t.Errorf("CallerScope(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestCallerTokenDependsOnKeyAndScope(t *testing.T) {
	current, previous, other := []byte("current"), []byte("previous"), []byte("other")
	token := webhookconfig.CallerToken(current, "cells/a")
	if problems := validation.IsDNS1123Subdomain(token); len(problems) > 0 || len(token) != 40 {
		t.Errorf("token of %d characters, problems %v, want 40 that an API server accepts in a path", len(token), problems)
	}
	for claim, c := range map[string]struct {
		token, scope string
		keys         [][]byte
		want         bool
	}{
		"the current key":          {token, "cells/a", [][]byte{current, previous}, true},
		"the previous key":         {webhookconfig.CallerToken(previous, "cells/a"), "cells/a", [][]byte{current, previous}, true},
		"another key":              {token, "cells/a", [][]byte{other, nil}, false},
		"another cell":             {token, "cells/b", [][]byte{current}, false},
		"a core of the same name":  {token, "cores/a", [][]byte{current}, false},
		"a prefix of the token":    {token[:39], "cells/a", [][]byte{current}, false},
		"no token":                 {"", "cells/a", [][]byte{current, nil}, false},
		"a token of the empty key": {webhookconfig.CallerToken(nil, "cells/a"), "cells/a", [][]byte{nil, {}}, false},
		"no key":                   {token, "cells/a", nil, false},
	} {
		if got := webhookconfig.IsCallerToken(c.token, c.scope, c.keys...); got != c.want {
			t.Errorf("%s: IsCallerToken = %v, want %v", claim, got, c.want)
		}
	}
}

func TestConfigurationsWithACallerToken(t *testing.T) {
	path, token := webhookconfig.RemovalPath("a"), webhookconfig.CallerToken([]byte("key"), "cells/a")
	with := webhookconfig.CallerPath(token, path)
	service := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}}
	}
	url := func(url string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: &url}
	}
	for claim, c := range map[string]struct {
		client      admissionregistrationv1.WebhookClientConfig
		token, path string
	}{
		"a Service":                        {service(path), "", path},
		"a Service with a token":           {service(with), token, path},
		"a Service without a path":         {admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{}}, "", ""},
		"a URL":                            {url("https://h:1" + path), "", path},
		"a URL with a token":               {url("https://h:1" + with + "?x=y"), token, path},
		"a URL behind a proxy":             {url("https://h/before" + with), token, path},
		"a host named callers":             {url("https://callers" + path), "", path},
		"a token and nothing else":         {service("/callers/x"), "", "/callers/x"},
		"a URL with a token and a roots":   {url("https://h" + webhookconfig.CallerPath(token, webhookconfig.RootGuardPath("c"))), token, webhookconfig.RootGuardPath("c")},
		"a Service with a token for roots": {service(webhookconfig.CallerPath(token, webhookconfig.RootGuardPath("c", "a"))), token, webhookconfig.RootGuardPath("c", "a")},
	} {
		t.Run(claim, func(t *testing.T) {
			gotToken, gotPath := webhookconfig.CallerTokenOf(&c.client)
			if gotToken != c.token || gotPath != c.path {
				t.Errorf("CallerTokenOf() = %q, %q, want %q, %q", gotToken, gotPath, c.token, c.path)
			}
			if c.path != path {
				return
			}
			configurations := []admissionregistrationv1.ValidatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.ValidatingWebhook{{ClientConfig: c.client}}}}
			if _, found := webhookconfig.Weaknesses("a", nil, configurations); !found {
				t.Error("webhook does not serve the cell")
			}
			if got := webhookconfig.Anonymous("a", configurations); got != (c.token == "") {
				t.Errorf("Anonymous() = %v, want %v", got, c.token == "")
			}
			if got := webhookconfig.CellNames(configurations); len(got) != 1 || got[0] != "a" {
				t.Errorf("CellNames() = %q, want a", got)
			}
		})
	}
}

func TestRedactCallerTokens(t *testing.T) {
	token := webhookconfig.CallerToken([]byte("key"), "cells/a")
	// An API server writes this text into the error of a removal.
	text := `failed calling webhook "pods.breakwater.dev": failed to call webhook: Post "https://breakwater-webhook.breakwater-system.svc:443` +
		webhookconfig.CallerPath(token, webhookconfig.RemovalPath("a")) + `?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`
	got := webhookconfig.RedactCallerTokens(text)
	if strings.Contains(got, token) || got != strings.Replace(text, token, "REDACTED", 1) {
		t.Errorf("RedactCallerTokens() = %q", got)
	}
	if text := "nothing to redact: /cells/a/validate"; webhookconfig.RedactCallerTokens(text) != text {
		t.Errorf("RedactCallerTokens(%q) = %q, want it unchanged", text, webhookconfig.RedactCallerTokens(text))
	}
}
