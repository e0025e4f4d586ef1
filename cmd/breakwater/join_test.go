package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestJoinRejectsInvalidFlags(t *testing.T) {
	kubeconfig := writeKubeconfig(t, testplane.Config(t))
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"no flags":               {nil, "\n  breakwater join --cell worker-1 --core-kubeconfig core.kubeconfig --kubeconfig worker-1.kubeconfig\n"},
		"an unknown direction":   {[]string{"--cell", "a", "--only", "up"}, `--only "up"`},
		"an unknown output":      {[]string{"--cell", "a", "--output", "json"}, `--output "json": want yaml`},
		"--output with --revoke": {[]string{"--cell", "a", "--output", "yaml", "--revoke"}, "without --revoke"},
		"no core":                {[]string{"--cell", "a", "--core-kubeconfig", "/nonexistent"}, "--core-kubeconfig: load kubeconfig"},
		"no worker":              {[]string{"--cell", "a", "--core-kubeconfig", kubeconfig, "--kubeconfig", "/nonexistent"}, "--kubeconfig: load kubeconfig"},
		"the same cluster twice": {[]string{"--cell", "a", "--core-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig}, "install the chart breakwater with role: single"},
		"a missing CA file":      {[]string{"--cell", "a", "--core-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig, "--worker-ca", "/nonexistent"}, "/nonexistent"},
	} {
		t.Run(claim, func(t *testing.T) {
			if _, err := commandOutput(t, append([]string{"join"}, c.arguments...)...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestJoinPrintAndRevoke(t *testing.T) {
	namespace, ca := testplane.Namespace(t), filepath.Join(t.TempDir(), "ca.crt")
	second := kubernetes.NewForConfigOrDie(testplane.Second(t)).CoreV1()
	if _, err := second.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{testplane.Config(t), testplane.Second(t)} {
		testplane.AsServiceAccount(t, config, namespace, "access", "")
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "access-cell"}}
	if err := testplane.Client(t).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, testplane.Config(t).CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"join", "--cell", "west", "--core", "east", "--namespace", namespace, "--service-account", "access",
		"--core-kubeconfig", writeKubeconfig(t, testplane.Config(t)), "--kubeconfig", writeKubeconfig(t, testplane.Second(t)),
		"--core-server", "https://east.example:6443", "--core-ca", ca, "--token-lifetime", "1h", "--skip-check"}
	out, err := commandOutput(t, append(arguments, "--output", "yaml")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: cell-west", "name: core-east", "kind: Cell", "breakwater.dev/joined-core: east"} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "is valid until") {
		t.Errorf("notes are part of the manifests:\n%s", out)
	}
	tokens := func() int {
		list, err := second.Secrets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if tokens() != 1 {
		t.Errorf("%d Secrets in the worker, want one for the token", tokens())
	}
	wantCallerToken(t, namespace, arguments)
	if out, err := commandOutput(t, append(arguments, "--revoke")...); err != nil || !strings.Contains(out, "revoked 1 token in the worker") || tokens() != 0 {
		t.Errorf("%d Secrets are left: %v\n%s", tokens(), err, out)
	}
}

// wantCallerToken checks that join writes values for the worker only if the core has a caller key.
func wantCallerToken(t *testing.T, namespace string, arguments []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	arguments = append(arguments, "--grace", "0s", "--caller-values", file)
	if _, err := commandOutput(t, arguments...); err == nil || !strings.Contains(err.Error(), "webhook.callerTokens.mode") {
		t.Errorf("without caller keys join failed with %v, want an error about webhook.callerTokens.mode", err)
	}
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "breakwater-webhook-callers"}}
	if err := testplane.Client(t).Create(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	if _, err := commandOutput(t, arguments...); err == nil || !strings.Contains(err.Error(), "has no caller key yet") {
		t.Errorf("with an empty Secret join failed with %v, want an error about the missing key", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("stat of the values file after a failed join: %v, want it missing", err)
	}
	keys.Data = map[string][]byte{"current": []byte("a key")}
	if err := testplane.Client(t).Update(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	out, err := commandOutput(t, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	token := webhookconfig.CallerToken([]byte("a key"), "cells/west")
	values, err := os.ReadFile(file)
	if want := "webhook:\n  callerTokens:\n    given:\n      cells/west: " + token + "\n"; err != nil || string(values) != want {
		t.Errorf("--caller-values wrote %q, %v, want %q", values, err, want)
	}
	if strings.Contains(out, token) {
		t.Error("join printed the caller token")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("--caller-values wrote a file of mode %v, %v, want 0600", info, err)
	}
	if _, err := commandOutput(t, append(arguments, "--revoke")...); err == nil || !strings.Contains(err.Error(), "--caller-values excludes --revoke") {
		t.Errorf("--revoke with --caller-values failed with %v, want an error that both exclude each other", err)
	}
}
