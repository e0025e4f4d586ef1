package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// explainFixture is a namespace of a cluster that is both core and cell, without a webhook.
type explainFixture struct {
	*testing.T
	client    client.Client
	namespace string
	// contexts is a kubeconfig with the contexts here (an administrator) and nowhere (unreachable).
	contexts string
}

func newExplainFixture(t *testing.T, others map[string]*rest.Config) *explainFixture {
	t.Helper()
	configs := map[string]*rest.Config{"here": testplane.Config(t), "nowhere": {Host: "https://127.0.0.1:1"}}
	for name, config := range others {
		configs[name] = config
	}
	return &explainFixture{T: t, client: testplane.Client(t), namespace: testplane.Namespace(t), contexts: writeContexts(t, "here", configs)}
}

// run runs a command line and returns its output and exit code.
func (b *explainFixture) run(arguments ...string) (printed string, code int) {
	b.Helper()
	var out, warnings bytes.Buffer
	root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &warnings})
	root.SetArgs(append(arguments, "--kubeconfig", b.contexts, "-n", b.namespace))
	err := root.ExecuteContext(b.Context())
	exit := cli.ExitError{}
	switch {
	case errors.As(err, &exit):
		code = exit.Code
	case err != nil:
		code = 1
	}
	return fmt.Sprint(out.String(), warnings.String(), err), code
}

func (b *explainFixture) wantOutput(printed string, code, wantOutput int, words ...string) {
	b.Helper()
	if code != wantOutput {
		b.Errorf("exit code %d, want %d: %s", code, wantOutput, printed)
	}
	for _, word := range words {
		if !strings.Contains(strings.Join(strings.Fields(printed), " "), word) {
			b.Errorf("output does not contain %q:\n%s", word, printed)
		}
	}
}

func (b *explainFixture) create(object client.Object) {
	b.Helper()
	if err := b.client.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// pod creates a pod on a node that becomes Ready the given time after its creation. owner may be nil.
func (b *explainFixture) pod(name, node string, ready time.Duration, owner *metav1.OwnerReference) *corev1.Pod {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	p.Spec.NodeName, p.Spec.Containers = node, []corev1.Container{{Name: "web", Image: "web"}}
	b.create(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.CreationTimestamp.Add(ready))}}
	if err := b.client.Status().Update(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	return p
}

// protect creates a protector with the given number of counted pods.
func (b *explainFixture) protect(floor, available int32, cell string) {
	b.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	b.create(p)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: cell, Aggregation: v1alpha1.Aggregation{
		CountedReplicas: available, AvailableReplicas: available, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
	}}}
	if err := b.client.Status().Update(b.Context(), p); err != nil {
		b.Fatal(err)
	}
}

func owner(kind, name string) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "uid-of-" + "x", Controller: &yes}
}

func TestArgumentsOfExplain(t *testing.T) {
	b := newExplainFixture(t, nil)
	for line, want := range map[string]string{
		"explain deployment/web":                                            `"deployment/web": want pod/NAME`,
		"explain web-0":                                                     `"web-0": want pod/NAME`,
		"explain pod/":                                                      `want pod/NAME`,
		"explain pod/web-0 --operation scale":                               `--operation "scale": want delete, evict, update, resize or relabel`,
		"explain pod/web-0 -o xml":                                          `--output "xml"`,
		"explain pod/web-0 --cell c --cell-context c=here":                  `pods "web-0" not found`,
		"explain pod/web-0":                                                 "calls Breakwater for no cell",
		"force pod/web-0 --reason ok --cell c --cell-context c=here":        `pods "web-0" not found`,
		"drain-plan pod/web-0 --cell c --cell-context c=here":               `"pod/web-0": want NAME or node/NAME`,
		"cells pod/web-0":                                                   `"pod/web-0": want NAME or cell/NAME`,
		"status pod/web-0":                                                  `"pod/web-0": want NAME or podprotector/NAME`,
		"drain-plan no-such-node --cell c --cell-context c=nowhere":         "does not answer",
		"explain pod/web-0 --core-context nowhere --cell-context c=nowhere": "no cell",
	} {
		if printed, code := b.run(strings.Fields(line)...); code != 1 || !strings.Contains(printed, want) {
			t.Errorf("%s: exit code %d, want 1 and %q:\n%s", line, code, want, printed)
		}
	}
}

// If the user may not read webhook configurations, explain does not claim that no webhook is called.
func TestExplainWithUnreadableWebhooks(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "explain-"}}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	if err := testplane.Client(t).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	reader := testplane.AsServiceAccount(t, testplane.Config(t), testplane.Namespace(t), "reader", role.Name)
	b := newExplainFixture(t, map[string]*rest.Config{"reader": reader})
	b.protect(1, 1, "c")
	b.pod("web-0", "node-1", 0, nil)
	printed, code := b.run("explain", "pod/web-0", "--core-context", "here", "--cell", "c", "--cell-context", "c=reader")
	b.wantOutput(printed, code, 2, "denied if the API server calls Breakwater (NoBudget)", "unknown: the webhook configurations could "+
		"not be read", "cannot get resource \"namespaces\"")
	printed, code = b.run("explain", "pod/web-0", "--cell", "c", "--cell-context", "c=here")
	b.wantOutput(printed, code, 0, "allowed: the API server does not call Breakwater (the webhook would answer NoBudget)",
		"no webhook: no ValidatingWebhookConfiguration of this cluster calls /cells/c/validate")
}

func TestExplainNamesTheShareThatDenies(t *testing.T) {
	b := newExplainFixture(t, nil)
	b.pod("web-0", "node-1", 0, nil)
	b.protect(8, 6, "c")
	p := &v1alpha1.PodProtector{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "web"}, p); err != nil {
		t.Fatal(err)
	}
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web.share-1"}, Spec: *p.Spec.DeepCopy()}
	share.Spec.MinAvailable, share.Spec.ShareOf = v1alpha1.Pods(6), &v1alpha1.ShareOf{Name: "web", UID: string(p.UID), Cell: "c"}
	b.create(share)
	share.Status.Cells = p.DeepCopy().Status.Cells
	other := p.Status.Cells[0].DeepCopy()
	other.CellID, other.Share = "d", &v1alpha1.CellShare{Floor: 2, TermVersion: "1"}
	p.Status.Cells = append(p.Status.Cells, *other)
	p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 6, TermVersion: "1"}
	for _, changed := range []*v1alpha1.PodProtector{p, share} {
		if err := b.client.Status().Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}
	printed, code := b.run("explain", "pod/web-0", "--cell", "c", "--cell-context", "c=here")
	b.wantOutput(printed, code, 0, "the webhook would answer NoBudget", "core/"+b.namespace+"/web.share-1 6 6 0 0 NoBudget",
		"floor 6: the share of cell c in the floor of PodProtector web",
		"the cell's share of floor 8 is 6; other cells have budget for 4 further removals, which moves within seconds while the core is reachable",
		"it would have fewer pods available in cell \"c\" than its share of the floor of PodProtector \"web\"")
	if err := b.client.Delete(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	printed, code = b.run("explain", "pod/web-0", "--cell", "c", "--cell-context", "c=here")
	b.wantOutput(printed, code, 0, "the webhook would answer Unknown", "in cell \"c\" cannot be read in the cluster of the cell")
}

// Break-glass works while no core is reachable, and only with a confirmation.
func TestForceWithoutACore(t *testing.T) {
	b := newExplainFixture(t, nil)
	pod := b.pod("web-0", "node-1", 0, nil)
	annotations := func() map[string]string {
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		return pod.Annotations
	}
	printed, code := b.run("force", "pod/web-0", "--reason", "fire", "--core-context", "nowhere", "--request-timeout", "5s")
	b.wantOutput(printed, code, 1, "cannot determine which protectors the removal would override", "nothing was changed; set --yes")
	if len(annotations()) > 0 {
		t.Fatalf("annotations %v, want none", pod.Annotations)
	}
	printed, code = b.run("force", "pod/web-0", "--reason", "the\nrack burns", "--core-context", "nowhere", "--request-timeout", "5s", "--yes")
	b.wantOutput(printed, code, 0, "cannot determine which protectors the removal would override", "kubectl delete pod web-0 -n "+b.namespace)
	if got := annotations(); got[v1alpha1.AnnotationForceDelete] != "true" || got[v1alpha1.AnnotationForceReason] != "the rack burns" {
		t.Errorf("annotations %v, want the reason", got)
	}
}

// A pod that may be removed anyway is not annotated.
func TestForceOfAllowedRemoval(t *testing.T) {
	b := newExplainFixture(t, nil)
	pod := b.pod("web-0", "node-1", 0, nil)
	printed, code := b.run("force", "pod/web-0", "--reason", "fire", "--yes", "--cell", "c", "--cell-context", "c=here")
	b.wantOutput(printed, code, 0, "break-glass is not needed")
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || len(pod.Annotations) > 0 {
		t.Errorf("annotations %v (error %v), want none", pod.Annotations, err)
	}
}

func TestDrainLeavesOutPodsLikeKubectl(t *testing.T) {
	b := newExplainFixture(t, nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	b.create(node)
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), node) })
	b.protect(3, 4, "c")
	for i, ready := range []time.Duration{10 * time.Second, 20 * time.Second, time.Hour} {
		b.pod(fmt.Sprint("web-", i), node.Name, ready, owner("ReplicaSet", "web"))
	}
	b.pod("agent", node.Name, 0, owner("DaemonSet", "agent"))
	b.pod("bare", node.Name, 0, nil)
	at := []string{"--cell", "c", "--cell-context", "c=here"}
	ignore := append([]string{"--ignore-daemonsets", "--force"}, at...)
	b.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}})
	printed, code := b.run(append([]string{"drain-plan", node.Name}, at...)...)
	b.wantOutput(printed, code, 2, "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): "+b.namespace+"/agent",
		"cannot delete Pods that declare no controller (use --force to override): "+b.namespace+"/bare", "kubectl drain would abort on "+node.Name)
	printed, code = b.run(append([]string{"drain-plan", node.Name, "node/" + node.Name}, ignore...)...)
	b.wantOutput(printed, code, 0, "1 node in cell c in 4 waves, about 1m0s", "1 0s 20s", "1 pod left out")
	printed, code = b.run(append([]string{"drain-plan", node.Name, "--timeout", "30s"}, ignore...)...)
	b.wantOutput(printed, code, 2, "Timeout", "--timeout 30s", "2 pods would block")
	printed, code = b.run(append([]string{"drain-plan", node.Name, "--disable-eviction", "--replacements-ready-after", "1m", "-o", "json"}, ignore...)...)
	b.wantOutput(printed, code, 2, `"protector": "core/`+b.namespace+`/web"`)
	printed, code = b.run(append([]string{"drain-plan", node.Name, "--pod-selector", "app=none"}, at...)...)
	b.wantOutput(printed, code, 0, "No pod has to go from "+node.Name)
}
