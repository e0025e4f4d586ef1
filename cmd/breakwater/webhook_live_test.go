package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// warningRecorder holds the warnings that an API server has sent to a client.
type warningRecorder struct {
	mu       sync.Mutex
	messages []string
}

func (h *warningRecorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, text)
}

// drain returns the warnings since the last call.
func (h *warningRecorder) drain() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := strings.Join(h.messages, "\n")
	h.messages = nil
	return all
}

// administrator is a client of the test plane that records warnings.
type administrator struct {
	client.Client
	t        *testing.T
	config   *rest.Config
	warnings *warningRecorder
}

func newAdministrator(t *testing.T) *administrator {
	t.Helper()
	a := &administrator{t: t, config: testplane.Config(t), warnings: &warningRecorder{}}
	a.config.WarningHandlerWithContext = a.warnings
	var err error
	if a.Client, err = client.New(a.config, client.Options{Scheme: clusters.Scheme()}); err != nil {
		t.Fatal(err)
	}
	return a
}

// create creates an object and deletes it at the end of the test.
func (a *administrator) create(object client.Object) {
	a.t.Helper()
	if err := a.Create(a.t.Context(), object); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = a.Delete(context.WithoutCancel(a.t.Context()), object) })
}

// The API server calls the whole program with the configuration that webhook-config prints. It runs in trial mode and rejects nothing.
func TestWebhookAppliesSchedulingPolicies(t *testing.T) {
	a := newAdministrator(t)
	admin, warnings, create := a.Client, a.warnings, a.create
	namespace, kubeconfig := testplane.Namespace(t), writeKubeconfig(t, a.config)
	web := map[string]string{"app": "web"}
	create(&v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk"}, Spec: v1alpha1.PodSchedulingPolicySpec{
		PodSelector: &v1alpha1.PodSelector{}, ConflictPolicy: v1alpha1.ConflictReject,
		SchedulingCriteria: v1alpha1.SchedulingCriteria{NodeSelector: v1alpha1.NodeLabels{"disk": "ssd"}},
	}})
	create(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: v1alpha1.PodProtectorSpec{
		Selector: &v1alpha1.PodSelector{MatchLabels: web}, MinAvailable: v1alpha1.Pods(1),
		Spread: &v1alpha1.Spread{TopologyKey: corev1.LabelTopologyZone, Enforcement: v1alpha1.SpreadSchedule},
	}})
	certFile, keyFile := writeCertificate(t)
	address, health, metrics := testplane.FreeAddress(t), testplane.FreeAddress(t), testplane.FreeAddress(t)
	stop := runProgram(t, "webhook", "--scheduling", "--audit", "--core", "core="+kubeconfig, "--cell", namespace+"="+kubeconfig,
		"--listen", address, "--tls-cert", certFile, "--tls-key", keyFile, "--health-listen", health, "--metrics-listen", metrics)
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	printed, err := commandOutput(t, "webhook-config", "--scheduling", "--cell", namespace, "--namespaces", namespace, "--name", namespace,
		"--url", "https://"+address, "--ca-bundle", certFile, "--timeout", "20")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range documents(t, printed) {
		create(object)
	}
	pod := func(name string, nodes map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: web}, Spec: corev1.PodSpec{
			NodeSelector: nodes, Containers: []corev1.Container{{Name: "web", Image: "web"}},
		}}
	}
	eventually(t, "a pod is changed", func() string {
		probe := pod("probe", nil)
		if err := admin.Create(t.Context(), probe, client.DryRunAll); err != nil {
			t.Fatalf("create was denied: %v", err)
		}
		if probe.Spec.NodeSelector["disk"] != "ssd" || len(probe.Spec.TopologySpreadConstraints) != 1 {
			return fmt.Sprintf("nodeSelector is %v, and spread is %v", probe.Spec.NodeSelector, probe.Spec.TopologySpreadConstraints)
		}
		return ""
	})
	warnings.drain()
	good, bad := pod("good", nil), pod("bad", map[string]string{"disk": "hdd"})
	create(good)
	if got := good.Spec.TopologySpreadConstraints; len(got) != 1 || got[0].TopologyKey != corev1.LabelTopologyZone || got[0].LabelSelector.MatchLabels["app"] != "web" {
		t.Errorf("spread is %+v", got)
	}
	if received := warnings.drain(); received != "" {
		t.Errorf("warnings %q for a pod without conflicts, want none", received)
	}
	create(bad)
	if received := warnings.drain(); !strings.Contains(received, "admitted, since Breakwater is on trial (--audit)") || bad.Spec.NodeSelector["disk"] != "hdd" {
		t.Errorf("warnings %q, nodeSelector %v", received, bad.Spec.NodeSelector)
	}
	for _, line := range []string{
		`breakwater_scheduling_reviews_total{cell="` + namespace + `",reason="Injected"} 1`,
		`breakwater_scheduling_reviews_total{cell="` + namespace + `",reason="Rejected"} 1`,
		`breakwater_scheduling_spread_injections_total{cell="` + namespace + `"} 1`,
	} {
		if missing := fetch("http://"+metrics+"/metrics", line); missing != "" {
			t.Errorf("metrics: %s", missing)
		}
	}
	stop()
	if _, err := http.Get("http://" + health + "/readyz"); err == nil {
		t.Error("webhook did not exit")
	}
}

// The API server calls the whole program, which warns by default.
func TestWebhookWarnsAboutDeletions(t *testing.T) {
	a := newAdministrator(t)
	admin, warnings, create := a.Client, a.warnings, a.create
	namespace, kubeconfig := testplane.Namespace(t), writeKubeconfig(t, a.config)
	create(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: v1alpha1.PodProtectorSpec{
		Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(2),
	}})
	certFile, keyFile := writeCertificate(t)
	address, health, metrics := testplane.FreeAddress(t), testplane.FreeAddress(t), testplane.FreeAddress(t)
	stop := runProgram(t, "webhook", "--core", "core="+kubeconfig, "--cell", namespace+"="+kubeconfig, "--root-guard-owner-kinds", "configmaps",
		"--listen", address, "--tls-cert", certFile, "--tls-key", keyFile, "--health-listen", health, "--metrics-listen", metrics)
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	printed, err := commandOutput(t, "webhook-config", "--root-guard", "--core", "core", "--cell", namespace, "--namespaces", namespace, "--name", namespace,
		"--url", "https://"+address, "--ca-bundle", certFile, "--timeout", "20")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range documents(t, printed) {
		create(object)
	}
	want := fmt.Sprintf("1 floor that keeps 2 pods available (now 0) depends on Namespace %q: it stays in force until you confirm", namespace)
	eventually(t, "a warning", func() string {
		if err := admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.DryRunAll); err != nil {
			t.Fatalf("delete was denied: %v", err)
		}
		if received := warnings.drain(); !strings.Contains(received, want) {
			return fmt.Sprintf("warnings %q, want %q", received, want)
		}
		return ""
	})
	if err := admin.Delete(t.Context(), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	if missing := fetch("http://"+metrics+"/metrics", `breakwater_rootguard_reviews_total{kind="PodProtector",reason="Warned"} 1`); missing != "" {
		t.Errorf("metrics: %s", missing)
	}
	stop()
}
