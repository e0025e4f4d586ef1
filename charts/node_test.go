package charts_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func nodeDaemonSet(t *testing.T, arguments ...string) *appsv1.DaemonSet {
	t.Helper()
	all := objectsOfKind[appsv1.DaemonSet](t, render(t, append([]string{"--values", "breakwater/ci/node.yaml"}, arguments...)...), "DaemonSet")
	if len(all) != 1 {
		t.Fatalf("%d DaemonSets, want 1", len(all))
	}
	return all[0]
}

func TestNodeGuardIsInstalledOnNodesOfWorkersOnly(t *testing.T) {
	for _, object := range render(t, "--values", "breakwater/ci/core.yaml", "--set", "node.enabled=true") {
		if strings.HasPrefix(object.GetName(), "breakwater-node") {
			t.Errorf("a core has %s %s", object.GetKind(), object.GetName())
		}
	}
	container := nodeDaemonSet(t).Spec.Template.Spec.Containers[0]
	for _, want := range []string{
		"agent", "--node=$(NODE_NAME)", "--root=/host", "--listen=127.0.0.1:16443", "--retention=12h", "--kubeconfig=/var/lib/kubelet/kubeconfig", "--metrics-listen=:16444",
		"--namespace=" + namespace, "--service-account=breakwater-node",
	} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("the agent has arguments %q, want %s", container.Args, want)
		}
	}
	if slices.Contains(container.Args, "--uninstall") {
		t.Errorf("the agent uninstalls: %q", container.Args)
	}
	for _, c := range []struct{ set, want, not string }{
		{"node.uninstall=true", "--uninstall", ""}, {"node.metricsPort=0", "agent", "--metrics-listen=:0"}, {"node.extraArgs[0]=--dir=/var/guard", "--dir=/var/guard", ""},
	} {
		container := nodeDaemonSet(t, "--set", c.set).Spec.Template.Spec.Containers[0]
		if !slices.Contains(container.Args, c.want) || slices.Contains(container.Args, c.not) {
			t.Errorf("%s: arguments %q, want %s", c.set, container.Args, c.want)
		}
	}
}

func TestNodeGuardIsScrapedOnEachNode(t *testing.T) {
	for _, values := range []string{"metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true,metrics.authenticate=false"} {
		monitors := objectsOfKind[monitoringv1.PodMonitor](t, render(t, "--values", "breakwater/ci/node.yaml", "--set", values), "PodMonitor")
		at := slices.IndexFunc(monitors, func(m *monitoringv1.PodMonitor) bool { return m.Name == "breakwater-node" })
		if at < 0 {
			t.Fatalf("%s: no PodMonitor breakwater-node", values)
		}
		pods := nodeDaemonSet(t).Spec.Template
		for key, value := range monitors[at].Spec.Selector.MatchLabels {
			if pods.Labels[key] != value {
				t.Errorf("the PodMonitor selects %s=%s, the pods have %q", key, value, pods.Labels[key])
			}
		}
		if port := pods.Spec.Containers[0].Ports[0].Name; *monitors[at].Spec.PodMetricsEndpoints[0].Port != port {
			t.Errorf("the PodMonitor reads port %s, the pods have %s", *monitors[at].Spec.PodMetricsEndpoints[0].Port, port)
		}
	}
}

// nodeGuard is a cluster with the chart's policy and rules for the account of node guards.
type nodeGuard struct {
	*testing.T
	admin     client.Client
	namespace string
}

func newNodeGuard(t *testing.T) *nodeGuard {
	t.Helper()
	g := &nodeGuard{t, apiserver(t), testplane.Namespace(t)}
	for _, object := range render(t, "--values", "breakwater/ci/node.yaml") {
		if object.GetName() != "breakwater-node" || object.GetKind() == "DaemonSet" {
			continue
		}
		if err := g.admin.Create(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		t.Cleanup(func() { _ = g.admin.Delete(context.Background(), object) })
	}
	for _, name := range []string{"a", "b"} {
		g.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"other": "x"}}})
	}
	g.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "default"}})
	return g
}

func (g *nodeGuard) create(object client.Object) {
	g.Helper()
	if err := g.admin.Create(g.Context(), object); err != nil {
		g.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	g.Cleanup(func() { _ = g.admin.Delete(context.Background(), object, client.GracePeriodSeconds(0)) })
}

// of returns a client with the token of a node; "" for a token that belongs to no node.
func (g *nodeGuard) of(node string) client.Client {
	config := rest.CopyConfig(testplane.Config(g))
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":breakwater-node"}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return clientFor(g.T, config)
}

func (g *nodeGuard) pod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name, Annotations: map[string]string{"breakwater.dev/registered-for": "uid"}},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "default", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func (g *nodeGuard) want(allowed bool, operation string, err error) {
	g.Helper()
	switch {
	case allowed && err != nil:
		g.Errorf("%s: error %v, want it allowed", operation, err)
	case !allowed && !isDenied(err):
		g.Errorf("%s: error %v, want a denial by the policy", operation, err)
	}
}

func TestTheNodeGuardActsOnItsNodeOnly(t *testing.T) {
	g := newNodeGuard(t)
	own := g.of("a")
	dry := client.DryRunAll
	testplane.Eventually(t, func() string { // policies are in force some time after they are created
		if err := own.Create(t.Context(), g.pod("probe", "b", nil), dry); !isDenied(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		return errorText(own.Create(t.Context(), g.pod("probe", "a", nil), dry))
	})
	for claim, c := range map[string]struct {
		as      client.Client
		pod     *corev1.Pod
		allowed bool
	}{
		"a pod of its node":            {own, g.pod("new", "a", nil), true},
		"a pod of another node":        {own, g.pod("new", "b", nil), false},
		"a pod of no node":             {own, g.pod("new", "", nil), false},
		"a pod without registration":   {own, g.pod("new", "a", func(p *corev1.Pod) { p.Annotations = nil }), false},
		"a pod of an exempt namespace": {own, g.pod("new", "a", func(p *corev1.Pod) { p.Namespace = "kube-system" }), false},
		"a token without a node":       {g.of(""), g.pod("new", "a", nil), false},
		"the other node's token":       {g.of("b"), g.pod("new", "a", nil), false},
	} {
		g.want(c.allowed, "create "+claim, c.as.Create(t.Context(), c.pod, dry))
	}
	controlled := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "1", Controller: &yes}}
		}
	}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"web"}}}`))
	for _, c := range []struct {
		pod            *corev1.Pod
		change, remove bool
	}{
		{g.pod("own", "a", nil), true, true},
		{g.pod("other", "b", nil), false, false},
		{g.pod("other-replica", "b", controlled("ReplicaSet")), false, false},
		{g.pod("web-0", "b", controlled("StatefulSet")), false, true},
		{g.pod("unscheduled", "", nil), false, false},
		{g.pod("web-1", "", controlled("StatefulSet")), false, true},
	} {
		g.create(c.pod)
		g.want(c.change, "change "+c.pod.Name, own.Patch(t.Context(), c.pod.DeepCopy(), label, dry))
		g.want(c.remove, "delete "+c.pod.Name, own.Delete(t.Context(), c.pod, dry))
	}
	g.wantAnnotationsOfOwnNodeOnly(own)
	g.wantTokensOfOwnNodeOnly(own)
}

func (g *nodeGuard) wantAnnotationsOfOwnNodeOnly(own client.Client) {
	g.Helper()
	for claim, c := range map[string]struct {
		node, patch string
		allowed     bool
	}{
		"set its annotation":          {"a", `{"metadata":{"annotations":{"breakwater.dev/node-guard":"{}"}}}`, true},
		"set that of another Node":    {"b", `{"metadata":{"annotations":{"breakwater.dev/node-guard":"{}"}}}`, false},
		"set another annotation":      {"a", `{"metadata":{"annotations":{"volumes.example/attached":"x"}}}`, false},
		"change another annotation":   {"a", `{"metadata":{"annotations":{"other":"y"}}}`, false},
		"remove another annotation":   {"a", `{"metadata":{"annotations":{"other":null}}}`, false},
		"set a label":                 {"a", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, false},
		"set a finalizer":             {"a", `{"metadata":{"finalizers":["example.com/x"]}}`, false},
		"remove a taint, or add one":  {"a", `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`, false},
		"make the Node unschedulable": {"a", `{"spec":{"unschedulable":true}}`, false},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node}}
		g.want(c.allowed, claim, own.Patch(g.Context(), node, client.RawPatch("application/merge-patch+json", []byte(c.patch)), client.DryRunAll))
	}
}

func (g *nodeGuard) wantTokensOfOwnNodeOnly(own client.Client) {
	g.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "breakwater-node"}}
	for node, allowed := range map[string]bool{"a": true, "b": false, "": false} {
		request := &authenticationv1.TokenRequest{}
		if node != "" {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
		}
		g.want(allowed, "request a token of node "+node, own.SubResource("token").Create(g.Context(), account, request))
	}
	// RBAC grants the token of no other account.
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "default"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "a"}}}
	if err := own.SubResource("token").Create(g.Context(), other, request); err == nil || !strings.Contains(err.Error(), "cannot create resource \"serviceaccounts/token\"") {
		g.Errorf("request a token of another account: error %v, want that RBAC denies it", err)
	}
}

// The metrics of the guard name no pod, so they need no authentication; everything else that the DaemonSet exposes is on the loopback interface.
func TestNodeGuardExposesOnlyMetrics(t *testing.T) {
	pod := nodeDaemonSet(t).Spec.Template.Spec
	ports := map[string]int32{}
	for _, p := range pod.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	if want := map[string]int32{"guard-metrics": 16444}; !maps.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	if probe := pod.Containers[0].ReadinessProbe.HTTPGet; probe.Host != "127.0.0.1" || probe.Port.IntValue() != 16445 {
		t.Errorf("readiness probe %+v, want one of the loopback interface", probe)
	}
	if !pod.HostNetwork || !pod.HostPID || !*pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("pod %+v, want hostNetwork, hostPID for systemctl, and a read-only root file system", pod)
	}
}
