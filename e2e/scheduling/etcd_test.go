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

// toPool brings pods of one of the two etcds of a shoot to their pool: what a cluster's operator knows, and no chart does.
func toPool(l *lab, role, pool string) string {
	return `namespaceSelector: {matchLabels: {gardener.cloud/role: shoot, kubernetes.io/metadata.name: ` + l.Namespace + `}}
podSelector: {matchLabels: {app: etcd-statefulset, role: ` + role + `}}
nodeSelector: {worker.gardener.cloud/pool: ` + pool + `}
tolerations: [{key: worker.gardener.cloud/pool, operator: Equal, value: ` + pool + `, effect: NoSchedule}]
`
}

// shoot is a namespace of a seed cluster with the control plane of a shoot.
func shoot(l *lab) *lab {
	l.Helper()
	return scheduling.Lab(l.TB, map[string]string{"gardener.cloud/role": "shoot"})
}

// etcd makes the StatefulSet of an etcd, whose template says nothing of nodes.
func etcd(l *lab, role string, replicas int32) *appsv1.StatefulSet {
	l.Helper()
	labels := map[string]string{"app": "etcd-statefulset", "role": role}
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "etcd-" + role, Labels: labels}}
	s.Spec.Replicas, s.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	s.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec()}
	s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	made, err := here(l).Client.AppsV1().StatefulSets(l.Namespace).Create(l.Context(), s, metav1.CreateOptions{})
	l.Must(err)
	return made
}

// etcdPods waits until so many run, and tells them by role.
func etcdPods(l *lab, want int) (byRole map[string][]corev1.Pod) {
	l.Helper()
	byRole = map[string][]corev1.Pod{}
	for _, pod := range landed(l, here(l), "etcd-statefulset", want) {
		byRole[pod.Labels["role"]] = append(byRole[pod.Labels["role"]], pod)
	}
	return byRole
}

func wantAllAt(l *lab, pods []corev1.Pod, pool string) {
	l.Helper()
	if diff := cmp.Diff(map[string]int{"pool " + pool: len(pods)}, where(here(l), pods, byPool)); diff != "" {
		l.Errorf("pods of an etcd (-want +got):\n%s", diff)
	}
}

func TestThePoolsOfEtcd(t *testing.T) {
	claim(t, "pods of either etcd land on their own pool, and nothing else does, whose templates know nothing of it", func(l *lab) {
		l = shoot(l)
		clusterPolicy(l, "main", toPool(l, "main", "etcd-main"))
		clusterPolicy(l, "events", toPool(l, "events", "etcd-events"))
		awaitHeeded(l)
		etcd(l, "main", 3)
		etcd(l, "events", 3)
		deploy(l, here(l), "kube-apiserver", 4)
		pods := etcdPods(l, 6)
		wantAllAt(l, pods["main"], "etcd-main")
		wantAllAt(l, pods["events"], "etcd-events")
		for pool, n := range where(here(l), landed(l, here(l), "kube-apiserver", 4), byPool) {
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

func TestAPoolThatComesLater(t *testing.T) {
	claim(t, "a policy for an etcd that runs moves none of its pods; one that is made anew lands on the pool", func(l *lab) {
		l = shoot(l)
		etcd(l, "main", 2)
		before := etcdPods(l, 2)["main"]
		clusterPolicy(l, "main", toPool(l, "main", "etcd-main"))
		awaitHeeded(l)
		touchSet(l, "etcd-main")
		if diff := cmp.Diff(identities(before), identities(etcdPods(l, 2)["main"])); diff != "" {
			l.Fatalf("pods when the policy came (-before +after):\n%s", diff)
		}

		l.Must(l.Remove(here(l), "etcd-main-0"))
		l.Eventually(func() string {
			pod, err := here(l).Client.CoreV1().Pods(l.Namespace).Get(l.Context(), "etcd-main-0", metav1.GetOptions{})
			if err != nil || pod.UID == identities(before)["etcd-main-0"] || pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("etcd-main-0 is not there again: %v, %+v", err, pod.Status)
			}
			return ""
		})
		for _, pod := range etcdPods(l, 2)["main"] {
			if pod.Name == "etcd-main-0" {
				wantAllAt(l, []corev1.Pod{pod}, "etcd-main")
			} else if pod.UID != identities(before)[pod.Name] {
				l.Errorf("pod %s is another one", pod.Name)
			}
		}
	})
}

// touchSet makes a change to a StatefulSet that makes no revision, and waits until its controller has looked at it.
func touchSet(l *lab, name string) {
	l.Helper()
	sets := here(l).Client.AppsV1().StatefulSets(l.Namespace)
	s, err := sets.Patch(l.Context(), name, types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
	l.Must(err)
	l.Eventually(func() string {
		now, err := sets.Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if now.Status.ObservedGeneration < s.Generation {
			return fmt.Sprintf("generation %d of StatefulSet %s is not looked at: %+v", s.Generation, name, now.Status)
		}
		return ""
	})
}

// identities are the UIDs of pods by name.
func identities(pods []corev1.Pod) map[string]types.UID {
	of := map[string]types.UID{}
	for i := range pods {
		of[pods[i].Name] = pods[i].UID
	}
	return of
}

func TestATemplateForAPool(t *testing.T) {
	claim(t, "the template of an etcd that is made has what a policy for templates adds, so that its pods need no webhook", func(l *lab) {
		l = shoot(l)
		clusterPolicy(l, "main", "targets: [PodTemplates]\n"+toPool(l, "main", "etcd-main"))
		awaitHeeded(l)
		made := etcd(l, "main", 2)
		want := corev1.Toleration{Key: poolKey, Operator: corev1.TolerationOpEqual, Value: "etcd-main", Effect: corev1.TaintEffectNoSchedule}
		if got := made.Spec.Template.Spec; got.NodeSelector[poolKey] != "etcd-main" || len(got.Tolerations) != 1 || got.Tolerations[0] != want {
			l.Errorf("the template became %+v", got)
		}
		wantAllAt(l, etcdPods(l, 2)["main"], "etcd-main")
		bare := newPod("bare", "etcd-statefulset", func(pod *corev1.Pod) { pod.Labels["role"] = "main" })
		pod, err := create(l, here(l), bare)
		l.Must(err)
		if len(pod.Spec.NodeSelector) > 0 {
			l.Errorf("a pod became %+v by a policy for templates", pod.Spec)
		}
	})
}
