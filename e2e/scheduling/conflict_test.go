package scheduling_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const (
	zoneSelector = "nodeSelector: {topology.kubernetes.io/zone: %s}"
	zoneAffinity = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
		{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}]}}}`
	zoneNode = "nodeName: worker-1-node-%s"
)

func TestConflictingPolicies(t *testing.T) {
	type pair struct{ first, second, want string }
	for name, p := range map[string]pair{
		"two node labels":                  {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"two required affinities":          {fmt.Sprintf(zoneAffinity, "b"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
		"a label and an affinity":          {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
		"an affinity and a label":          {fmt.Sprintf(zoneAffinity, "b"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"a label and the node's name":      {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneNode, "3"), "zone b"},
		"the node's name and a label":      {fmt.Sprintf(zoneNode, "2"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"the node's name and the affinity": {fmt.Sprintf(zoneNode, "2"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "the policy of higher priority places the pods, their author is warned, and the other policy reports the conflict", func(l *fixture) {
				createPolicy(l, "z-first", "priority: 10\n"+selectsWeb+p.first)
				second := createPolicy(l, "a-second", selectsWeb+p.second)
				waitForPolicies(l)
				heard := collectWarnings(l, func(c kubernetes.Interface) {
					waitForServiceAccount(l, here(l))
					for i := range 3 {
						_, err := c.CoreV1().Pods(l.Namespace).Create(l.Context(), newPod(fmt.Sprint("web-", i), "web"), metav1.CreateOptions{})
						l.Must(err)
					}
				})
				expectPlacement(l, here(l), "web", zoneOf, map[string]int{p.want: 3})
				if !strings.Contains(heard, "PodSchedulingPolicy "+l.Namespace+"/a-second was not applied to ") {
					l.Errorf("the author of the pods was warned of %q", heard)
				}
				waitForConflicts(l, second, 3)
			})
		})
	}
}

func TestPodConflictsWithPolicy(t *testing.T) {
	claim(t, "it runs where it requests, with the fields of the policy that do not conflict", func(l *fixture) {
		p := createPolicy(l, "main", selectsWeb+`nodeSelector: {worker.gardener.cloud/pool: general, topology.kubernetes.io/zone: b}
tolerations: [{key: added, operator: Exists}]`)
		waitForPolicies(l)
		createPods(l, here(l), "web", 2, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"} })
		expectPlacement(l, here(l), "web", nameOf, map[string]int{"node-3": 2})
		for _, pod := range waitForRunning(l, here(l), "web", 2) {
			if pod.Spec.NodeSelector[poolKey] != "general" || len(pod.Spec.Tolerations) != 3 {
				l.Errorf("pod %s became %+v", pod.Name, pod.Spec)
			}
		}
		waitForConflicts(l, p, 2)
	})
}

// waitForConflicts waits until a policy reports at least the given number of conflicting pods in its status, and a conflict in an event. A pod
// that is bound to a node at once may count twice: Kubernetes adds labels of the node to it, and calls the webhook again.
func waitForConflicts(l *fixture, p *v1alpha1.PodSchedulingPolicy, pods int64) {
	l.Helper()
	l.Eventually(func() string {
		s := policyStatus(l, p)
		told := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionConflicting)
		if s.Conflicts < pods || s.Matched != s.Conflicts || s.Rejected != 0 || told == nil || told.Status != metav1.ConditionTrue || !strings.Contains(told.Message, ", want ") {
			return fmt.Sprintf("policy %s does not report %d conflicts: %+v", p.Name, pods, s)
		}
		return ""
	})
	waitForEvent(l, p.Name, corev1.EventTypeWarning, v1alpha1.ReasonContradicted, ", want ")
}

// warnings collects the warnings of an API server.
type warnings struct {
	mu   sync.Mutex
	text strings.Builder
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(text + "\n")
}

// collectWarnings returns the warnings that a client gets from the API server of the cell here.
func collectWarnings(l *fixture, do func(kubernetes.Interface)) string {
	l.Helper()
	config, heard := l.Federation().Workers()[0].RESTConfig(), &warnings{}
	config.WarningHandler = heard
	c, err := kubernetes.NewForConfig(config)
	l.Must(err)
	do(c)
	heard.mu.Lock()
	defer heard.mu.Unlock()
	return heard.text.String()
}

func TestRejectingPolicy(t *testing.T) {
	claim(t, "a conflicting pod is denied with reason and remedy, which its Deployment shows in a condition until the conflict ends", func(l *fixture) {
		p := createPolicy(l, "strict", selectsWeb+"conflictPolicy: Reject\n"+fmt.Sprintf(zoneSelector, "b"))
		waitForPolicies(l)
		text := "Breakwater refuses: nodeSelector[topology.kubernetes.io/zone] of /spec contradicts PodSchedulingPolicy " + l.Namespace +
			`/strict: the object has "c", the policy sets "b" (the object keeps its own value). Remove the field from the Pod or set it to the value of the policy; ` +
			"or set conflictPolicy of the policy to KeepExisting"
		astray := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"} }
		_, err := createPod(l, here(l), newPod("bare", "web", astray))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
			l.Errorf("got %v, want 403 with %q", err, text)
		}

		createDeployment(l, here(l), "web", 2, func(t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
		})
		deployments := here(l).Client.AppsV1().Deployments(l.Namespace)
		l.Eventually(func() string {
			d, err := deployments.Get(l.Context(), "web", metav1.GetOptions{})
			l.Must(err)
			for _, c := range d.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" && strings.Contains(c.Message, text) {
					return ""
				}
			}
			return fmt.Sprintf("the Deployment does not report the denial: %+v", d.Status)
		})
		waitForRunning(l, here(l), "web", 0)
		_, err = deployments.Patch(l.Context(), "web", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"nodeSelector":null}}}}`), metav1.PatchOptions{})
		l.Must(err)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone b": 2})
		l.Eventually(func() string {
			if s := policyStatus(l, p); s.Rejected == 0 || s.Rejected != s.Conflicts || s.Injected != 2 {
				return fmt.Sprintf("the policy does not report its denials: %+v", s)
			}
			return ""
		})
	})
}
