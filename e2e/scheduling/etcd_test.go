package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// poolPolicy returns a policy that puts the pods of one of the two etcds of a shoot on their pool. The operator of a cluster knows the pool; no
// chart does.
func poolPolicy(l *fixture, role, pool string) string {
	return `namespaceSelector: {matchLabels: {gardener.cloud/role: shoot, kubernetes.io/metadata.name: ` + l.Namespace + `}}
podSelector: {matchLabels: {app: etcd-statefulset, role: ` + role + `}}
nodeSelector: {worker.gardener.cloud/pool: ` + pool + `}
tolerations: [{key: worker.gardener.cloud/pool, operator: Equal, value: ` + pool + `, effect: NoSchedule}]
`
}

// newShootNamespace returns a fixture with a namespace that a seed cluster uses for the control plane of a shoot.
func newShootNamespace(l *fixture) *fixture {
	l.Helper()
	return schedulingSuite.NewFixture(l.TB, map[string]string{"gardener.cloud/role": "shoot"})
}

// createEtcd creates the StatefulSet of an etcd. Its template has no scheduling fields.
func createEtcd(l *fixture, role string, replicas int32) *appsv1.StatefulSet {
	l.Helper()
	labels := map[string]string{"app": "etcd-statefulset", "role": role}
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "etcd-" + role, Labels: labels}}
	s.Spec.Replicas, s.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	s.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPodSpec()}
	s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	made, err := here(l).Client.AppsV1().StatefulSets(l.Namespace).Create(l.Context(), s, metav1.CreateOptions{})
	l.Must(err)
	return made
}

// waitForEtcdPods waits until the wanted number of etcd pods run, and returns them by role.
func waitForEtcdPods(l *fixture, want int) (byRole map[string][]corev1.Pod) {
	l.Helper()
	byRole = map[string][]corev1.Pod{}
	for _, pod := range waitForRunning(l, here(l), "etcd-statefulset", want) {
		byRole[pod.Labels["role"]] = append(byRole[pod.Labels["role"]], pod)
	}
	return byRole
}

func expectAllInPool(l *fixture, pods []corev1.Pod, pool string) {
	l.Helper()
	if diff := cmp.Diff(map[string]int{"pool " + pool: len(pods)}, countByNode(here(l), pods, poolOf)); diff != "" {
		l.Errorf("pods of an etcd (-want +got):\n%s", diff)
	}
}

func TestEtcdPools(t *testing.T) {
	claim(t, "only pods of each etcd run on its pool, although their templates do not name it", func(l *fixture) {
		l = newShootNamespace(l)
		createClusterPolicy(l, "main", poolPolicy(l, "main", "etcd-main"))
		createClusterPolicy(l, "events", poolPolicy(l, "events", "etcd-events"))
		waitForPolicies(l)
		createEtcd(l, "main", 3)
		createEtcd(l, "events", 3)
		createDeployment(l, here(l), "kube-apiserver", 4)
		pods := waitForEtcdPods(l, 6)
		expectAllInPool(l, pods["main"], "etcd-main")
		expectAllInPool(l, pods["events"], "etcd-events")
		for pool, n := range countByNode(here(l), waitForRunning(l, here(l), "kube-apiserver", 4), poolOf) {
			if pool != "pool general" && pool != "pool fast" {
				l.Errorf("%d pods of a Deployment are on %s", n, pool)
			}
		}
		for _, role := range []string{"main", "events"} {
			s, err := here(l).Client.AppsV1().StatefulSets(l.Namespace).Get(l.Context(), "etcd-"+role, metav1.GetOptions{})
			l.Must(err)
			if asked := s.Spec.Template.Spec; len(asked.NodeSelector)+len(asked.Tolerations) > 0 {
				l.Errorf("the template of %s became %+v", s.Name, asked)
			}
		}
	})
}

func TestPoolAddedLater(t *testing.T) {
	claim(t, "a policy for a running etcd moves none of its pods; a recreated pod runs on the pool", func(l *fixture) {
		l = newShootNamespace(l)
		createEtcd(l, "main", 2)
		before := waitForEtcdPods(l, 2)["main"]
		createClusterPolicy(l, "main", poolPolicy(l, "main", "etcd-main"))
		waitForPolicies(l)
		touchStatefulSet(l, "etcd-main")
		if diff := cmp.Diff(uidsByName(before), uidsByName(waitForEtcdPods(l, 2)["main"])); diff != "" {
			l.Fatalf("pods after the policy was created (-before +after):\n%s", diff)
		}

		l.Must(l.DeletePod(here(l), "etcd-main-0"))
		l.Eventually(func() string {
			pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), "etcd-main-0", metav1.GetOptions{})
			if err != nil || pod.UID == uidsByName(before)["etcd-main-0"] || pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("etcd-main-0 was not recreated: %v, %+v", err, pod.Status)
			}
			return ""
		})
		for _, pod := range waitForEtcdPods(l, 2)["main"] {
			if pod.Name == "etcd-main-0" {
				expectAllInPool(l, []corev1.Pod{pod}, "etcd-main")
			} else if pod.UID != uidsByName(before)[pod.Name] {
				l.Errorf("pod %s was recreated", pod.Name)
			}
		}
	})
}

// touchStatefulSet changes a field of a StatefulSet that does not create a revision, and waits until the controller has observed the change.
func touchStatefulSet(l *fixture, name string) {
	l.Helper()
	sets := here(l).Client.AppsV1().StatefulSets(l.Namespace)
	s, err := sets.Patch(l.Context(), name, types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
	l.Must(err)
	l.Eventually(func() string {
		now, err := sets.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if now.Status.ObservedGeneration < s.Generation {
			return fmt.Sprintf("generation %d of StatefulSet %s was not observed: %+v", s.Generation, name, now.Status)
		}
		return ""
	})
}

// uidsByName returns the UIDs of pods by name.
func uidsByName(pods []corev1.Pod) map[string]types.UID {
	of := map[string]types.UID{}
	for i := range pods {
		of[pods[i].Name] = pods[i].UID
	}
	return of
}

func TestTemplateForPool(t *testing.T) {
	claim(t, "the template of a new etcd has the fields of a policy for templates, so its pods need no webhook", func(l *fixture) {
		l = newShootNamespace(l)
		createClusterPolicy(l, "main", "targets: [PodTemplates]\n"+poolPolicy(l, "main", "etcd-main"))
		waitForPolicies(l)
		made := createEtcd(l, "main", 2)
		want := corev1.Toleration{Key: poolKey, Operator: corev1.TolerationOpEqual, Value: "etcd-main", Effect: corev1.TaintEffectNoSchedule}
		if got := made.Spec.Template.Spec; got.NodeSelector[poolKey] != "etcd-main" || len(got.Tolerations) != 1 || got.Tolerations[0] != want {
			l.Errorf("the template became %+v", got)
		}
		expectAllInPool(l, waitForEtcdPods(l, 2)["main"], "etcd-main")
		bare := newPod("bare", "etcd-statefulset", func(pod *corev1.Pod) { pod.Labels["role"] = "main" })
		pod, err := createPod(l, here(l), bare)
		l.Must(err)
		if len(pod.Spec.NodeSelector) > 0 {
			l.Errorf("a pod became %+v by a policy for templates", pod.Spec)
		}
	})
}
