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

func TestPoliciesThatContradictEachOther(t *testing.T) {
	type pair struct{ first, second, want string }
	for name, p := range map[string]pair{
		"two labels of nodes":              {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"two required affinities":          {fmt.Sprintf(zoneAffinity, "b"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
		"a label and an affinity":          {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
		"an affinity and a label":          {fmt.Sprintf(zoneAffinity, "b"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"a label and the node's name":      {fmt.Sprintf(zoneSelector, "b"), fmt.Sprintf(zoneNode, "3"), "zone b"},
		"the node's name and a label":      {fmt.Sprintf(zoneNode, "2"), fmt.Sprintf(zoneSelector, "c"), "zone b"},
		"the node's name and the affinity": {fmt.Sprintf(zoneNode, "2"), fmt.Sprintf(zoneAffinity, "c"), "zone b"},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "pods land by the one of the higher priority, their author is warned, and the other one tells", func(l *lab) {
				policy(l, "z-first", "priority: 10\n"+ofWeb+p.first)
				second := policy(l, "a-second", ofWeb+p.second)
				awaitHeeded(l)
				heard := listen(l, func(c kubernetes.Interface) {
					awaitAccount(l, here(l))
					for i := range 3 {
						_, err := c.CoreV1().Pods(l.Namespace).Create(l.Context(), newPod(fmt.Sprint("web-", i), "web"), metav1.CreateOptions{})
						l.Must(err)
					}
				})
				wantPlaces(l, here(l), "web", byZone, map[string]int{p.want: 3})
				if !strings.Contains(heard, "PodSchedulingPolicy "+l.Namespace+"/a-second was not heeded in ") {
					l.Errorf("the author of the pods was warned of %q", heard)
				}
				awaitConflicting(l, second, 3)
			})
		})
	}
}

func TestAPodThatContradictsAPolicy(t *testing.T) {
	claim(t, "it lands where it asks to, with what does not contradict it", func(l *lab) {
		p := policy(l, "main", ofWeb+`nodeSelector: {worker.gardener.cloud/pool: general, topology.kubernetes.io/zone: b}
tolerations: [{key: added, operator: Exists}]`)
		awaitHeeded(l)
		run(l, here(l), "web", 2, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"} })
		wantPlaces(l, here(l), "web", byName, map[string]int{"node-3": 2})
		for _, pod := range landed(l, here(l), "web", 2) {
			if pod.Spec.NodeSelector[poolKey] != "general" || len(pod.Spec.Tolerations) != 3 {
				l.Errorf("pod %s became %+v", pod.Name, pod.Spec)
			}
		}
		awaitConflicting(l, p, 2)
	})
}

// awaitConflicting waits until a policy says that so many pods contradicted it, and in what one did. Those that get their node at once may
// count twice: Kubernetes gives them labels of it, and asks again.
func awaitConflicting(l *lab, p *v1alpha1.PodSchedulingPolicy, pods int64) {
	l.Helper()
	l.Eventually(func() string {
		s := status(l, p)
		told := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionConflicting)
		if s.Conflicts < pods || s.Matched != s.Conflicts || s.Rejected != 0 || told == nil || told.Status != metav1.ConditionTrue || !strings.Contains(told.Message, "wanted is ") {
			return fmt.Sprintf("policy %s does not tell of %d conflicts: %+v", p.Name, pods, s)
		}
		return ""
	})
	awaitEvent(l, p.Name, corev1.EventTypeWarning, v1alpha1.ReasonContradicted, "wanted is ")
}

// warnings are what an apiserver warns of.
type warnings struct {
	mu   sync.Mutex
	text strings.Builder
}

// HandleWarningHeader takes one.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(text + "\n")
}

// listen tells of what the author of something in the cell here is warned.
func listen(l *lab, do func(kubernetes.Interface)) string {
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

func TestAPolicyThatRejects(t *testing.T) {
	claim(t, "who contradicts it is told why and what to do, a Deployment in a condition, and goes on when it does not any more", func(l *lab) {
		p := policy(l, "strict", ofWeb+"conflictPolicy: Reject\n"+fmt.Sprintf(zoneSelector, "b"))
		awaitHeeded(l)
		words := "Breakwater refuses: nodeSelector[topology.kubernetes.io/zone] of /spec contradicts PodSchedulingPolicy " + l.Namespace +
			`/strict: it has "c" and the policy "b" (it keeps its own). Take the field out of the Pod or give it the policy's value; ` +
			"or set conflictPolicy of the policy to KeepExisting"
		astray := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"} }
		_, err := create(l, here(l), newPod("bare", "web", astray))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			l.Errorf("got %v, want 403 with %q", err, words)
		}

		deploy(l, here(l), "web", 2, func(t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
		})
		deployments := here(l).Client.AppsV1().Deployments(l.Namespace)
		l.Eventually(func() string {
			d, err := deployments.Get(l.Context(), "web", metav1.GetOptions{})
			l.Must(err)
			for _, c := range d.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" && strings.Contains(c.Message, words) {
					return ""
				}
			}
			return fmt.Sprintf("the Deployment says nothing of it: %+v", d.Status)
		})
		landed(l, here(l), "web", 0)
		_, err = deployments.Patch(l.Context(), "web", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"nodeSelector":null}}}}`), metav1.PatchOptions{})
		l.Must(err)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone b": 2})
		l.Eventually(func() string {
			if s := status(l, p); s.Rejected == 0 || s.Rejected != s.Conflicts || s.Injected != 2 {
				return fmt.Sprintf("the policy does not tell of its refusals: %+v", s)
			}
			return ""
		})
	})
}
