package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestFlagsOfCells(t *testing.T) {
	hook := []string{"webhook-config", "--cell", "a", "--url", "https://a:1"}
	key, noKey := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "empty")
	for file, text := range map[string]string{key: "a key", noKey: ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for claim, test := range map[string]struct {
		arguments []string
		denial    string
		words     []string
	}{
		"all cells and one cell":                {[]string{"aggregator", "--all-cells", "--cell", "a"}, "omit --cell", nil},
		"all cells and a kubeconfig":            {[]string{"aggregator", "--all-cells", "--kubeconfig", "a"}, "omit --cell, --kubeconfig", nil},
		"no cell":                               {[]string{"aggregator"}, `--cell "" is not the name of a Cell`, nil},
		"all cells of a core":                   {[]string{"aggregator", "--all-cells", "--core-kubeconfig", "/nonexistent"}, "--core-kubeconfig: load kubeconfig", nil},
		"a missing kubeconfig of a core":        {[]string{"topology", "--kubeconfig", "/nonexistent"}, "--kubeconfig: load kubeconfig", nil},
		"a webhook without cells":               {[]string{"webhook", "--core", "a=/nonexistent", "--tls-cert", "x", "--tls-key", "x"}, "--core a=/nonexistent", nil},
		"an invalid scope":                      {append(hook, "--scope", "some"), `--scope "some": want All or Protected`, nil},
		"a scope of scheduling":                 {append(hook, "--scheduling", "--scope", "Protected"), "--scope Protected is for removals of a cell", nil},
		"a scope of a root guard":               {append(hook, "--root-guard", "--scope", "Protected"), "omit them with --root-guard", nil},
		"no aggregator":                         {append(hook, "--scope", "Protected", "--aggregator-users", ""), "--aggregator-users: name the users", nil},
		"an aggregator that changes the policy": {append(hook, "--scope", "Protected", "--aggregator-users", "a'] || true"), "want user names without quotes", nil},
		"scope Protected": {
			append(hook, "--scope", "Protected", "--aggregator-users", "x,y"), "",
			[]string{"- key: breakwater.dev/protected\n      operator: In\n", "kind: ValidatingAdmissionPolicyBinding", "name: breakwater-protected-a\n", "in ['x', 'y']"},
		},
		"a selector of all pods":        {append(hook, "--pod-selector", " "), "matches all pods", nil},
		"an invalid selector":           {append(hook, "--pod-selector", "a in"), `--pod-selector "a in"`, nil},
		"a selector and namespaces":     {append(hook, "--pod-selector", "a=b", "--namespaces", "c"), "exclude each other", nil},
		"a configuration of namespaces": {append(hook, "--namespaces", "shop,bank"), "", []string{"operator: In\n      values:\n      - shop\n      - bank"}},
		"namespaces of a core":          {[]string{"webhook-config", "--core", "a", "--namespaces", "shop", "--url", "https://a:1"}, "omit them with --core", nil},
		"a selector of a core":          {[]string{"webhook-config", "--core", "a", "--pod-selector", "a=b", "--url", "https://a:1"}, "omit them with --core", nil},
		"the names and labels of the chart": {
			hook, "", []string{"name: breakwater-cell-a\n", "labels:\n    app.kubernetes.io/name: breakwater\n    app.kubernetes.io/part-of: breakwater\n  name"},
		},
		"a release": {
			append(hook, "--release", "system/guard"), "",
			[]string{"meta.helm.sh/release-name: guard\n    meta.helm.sh/release-namespace: system\n", "app.kubernetes.io/instance: guard\n    app.kubernetes.io/managed-by: Helm\n"},
		},
		"a release of a root guard":     {append(hook, "--root-guard", "--release", "system/guard"), "", []string{"meta.helm.sh/release-name: guard\n"}},
		"a release without a namespace": {append(hook, "--release", "guard"), "want NAMESPACE/NAME", nil},
		"a caller key": {
			append(hook, "--caller-key", key), "", []string{"url: https://a:1/callers/" + webhookconfig.CallerToken([]byte("a key"), "cells/a") + "/cells/a/validate\n"},
		},
		"a missing caller key":              {append(hook, "--caller-key", "/nonexistent"), "--caller-key: open /nonexistent", nil},
		"an empty caller key":               {append(hook, "--caller-key", noKey), "empty is empty", nil},
		"a caller key of a static manifest": {append(hook, "--caller-key", key, "--static", "/etc/x"), "--caller-key excludes --static", nil},
		"a configuration of scheduling": {
			append(hook, "--scheduling", "--namespaces", "shop"), "",
			[]string{"kind: MutatingWebhookConfiguration", "name: breakwater-scheduling-a\n", "failurePolicy: Ignore", "timeoutSeconds: 2\n", "/cells/a/schedule", "- shop"},
		},
		"a failure policy that denies pods": {
			append(hook, "--scheduling", "--failure-policy", "Fail", "--timeout", "10"), "", []string{"failurePolicy: Fail", "timeoutSeconds: 10\n"},
		},
		"scheduling with an invalid selector":   {append(hook, "--scheduling", "--pod-selector", "a in"), `--pod-selector "a in"`, nil},
		"an invalid failure policy":             {append(hook, "--scheduling", "--failure-policy", "ignore"), `--failure-policy "ignore": want Ignore or Fail`, nil},
		"a failure policy without --scheduling": {append(hook, "--failure-policy", "Ignore"), "--failure-policy needs --scheduling", nil},
		"a configuration of a core's pods":      {[]string{"webhook-config", "--core", "a", "--scheduling", "--url", "https://a:1"}, "--scheduling is for a cell", nil},
		"a timeout of 0":                        {append(hook, "--scheduling", "--timeout", "0"), "--timeout 0: want from 1 to 30", nil},
		"a configuration of the root guard": {
			[]string{"webhook-config", "--root-guard", "--core", "main", "--cell", "a,b", "--root-kinds", "rollouts.argoproj.io", "--url", "https://a:1"}, "",
			[]string{"name: breakwater-roots\n", "failurePolicy: Ignore", "timeoutSeconds: 2\n", "/roots/cores/main/cells/a/b\n", "- rollouts\n", "system:serviceaccounts:breakwater-system"},
		},
		"a root guard without core and cell":     {[]string{"webhook-config", "--root-guard", "--url", "https://a:1"}, "set --core, --cell or both", nil},
		"a root guard of an invalid cell":        {[]string{"webhook-config", "--root-guard", "--cell", "a,", "--url", "https://a:1"}, `--cell "" is not the name of a Cell`, nil},
		"a root guard of an invalid core":        {[]string{"webhook-config", "--root-guard", "--core", "A", "--url", "https://a:1"}, `--core "A" is not a name`, nil},
		"a root guard with a failure policy":     {append(hook, "--root-guard", "--failure-policy", "Fail"), "--failure-policy needs --scheduling", nil},
		"a root guard and a selector":            {append(hook, "--root-guard", "--pod-selector", "a=b"), "--root-guard excludes", nil},
		"a root guard with an invalid namespace": {append(hook, "--root-guard", "--own-namespace", "a'"), `--own-namespace "a'" is not the name of a namespace`, nil},
		"kinds without a root guard":             {append(hook, "--root-kinds", "a"), "need --root-guard", nil},
		"a configuration of labels": {
			append(hook, "--pod-selector", "zone=a"), "",
			[]string{"kind: ValidatingWebhookConfiguration", "---\n", "kind: ValidatingAdmissionPolicy\n", `labels[?"zone"]`, "kind: ValidatingAdmissionPolicyBinding"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			output, err := commandOutput(t, test.arguments...)
			if test.denial != "" && (err == nil || !strings.Contains(err.Error(), test.denial)) || test.denial == "" && err != nil {
				t.Fatalf("error %v, want %q", err, test.denial)
			}
			for _, word := range test.words {
				if !strings.Contains(output, word) {
					t.Errorf("output does not contain %q:\n%s", word, output)
				}
			}
		})
	}
}

// A process has one topology controller, since its name is that of its metrics.
func TestTopologyIsReadyAndItsMetricsRequireAuthorization(t *testing.T) {
	kubeconfig, metrics, health := writeKubeconfig(t, testplane.Config(t)), testplane.FreeAddress(t), testplane.FreeAddress(t)
	runInBackground(t, "topology", "--kubeconfig", kubeconfig, "--leader-elect=false", "--health-listen", health, "--metrics-listen", metrics, "--metrics-auth", kubeconfig)
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	namespace := testplane.Namespace(t)
	monitoring := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "monitoring", "system:monitoring").BearerToken
	powerless := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "powerless", "").BearerToken
	read := func(token string) (code int, body string) {
		code, body, err := release.ScrapeAddress(t.Context(), metrics, token)
		if err != nil {
			return 0, err.Error()
		}
		return code, body
	}
	eventually(t, "metrics for an authorized client", func() string {
		if code, body := read(monitoring); code != http.StatusOK || !strings.Contains(body, "breakwater_build_info{") {
			return fmt.Sprintf("status %d, body %.200q", code, body)
		}
		return ""
	})
	for _, test := range []struct {
		client, token string
		want          int
	}{
		{"a client without a token", "", http.StatusUnauthorized},
		{"a client with a token that the API server does not know", "forged", http.StatusInternalServerError}, // as the filter of controller-runtime responds
		{"an account without the right", powerless, http.StatusForbidden},
	} {
		if code, body := read(test.token); code != test.want || strings.Contains(body, "breakwater_") {
			t.Errorf("%s got status %d and %.200q, want status %d and no metrics", test.client, code, body, test.want)
		}
	}
}
