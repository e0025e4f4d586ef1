package scheduling_test

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// createWorkloads creates one workload of each kind that replaces its pods when its template changes, and returns the number of pods: 2 of a
// Deployment, 2 of a StatefulSet, and one of a DaemonSet on each node of the general pool.
func createWorkloads(l *fixture) (pods int) {
	l.Helper()
	apps, two := here(l).Client.AppsV1(), int32(2)
	selector := func(kind string) (*metav1.LabelSelector, func(*corev1.PodTemplateSpec)) {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "kind": kind}}, func(t *corev1.PodTemplateSpec) { t.Labels["kind"] = kind }
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	of, labeled := selector("deployment")
	deployment.Spec.Replicas, deployment.Spec.Selector, deployment.Spec.Template = &two, of, podTemplate("web", labeled)
	_, err := apps.Deployments(l.Namespace).Create(l.Context(), deployment, metav1.CreateOptions{})
	l.Must(err)
	stateful := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	of, labeled = selector("statefulset")
	stateful.Spec.Replicas, stateful.Spec.Selector, stateful.Spec.Template = &two, of, podTemplate("web", labeled)
	_, err = apps.StatefulSets(l.Namespace).Create(l.Context(), stateful, metav1.CreateOptions{})
	l.Must(err)
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	of, labeled = selector("daemonset")
	daemon.Spec.Selector, daemon.Spec.Template = of, podTemplate("web", labeled, func(t *corev1.PodTemplateSpec) {
		t.Spec.NodeSelector = map[string]string{poolKey: "general"}
	})
	_, err = apps.DaemonSets(l.Namespace).Create(l.Context(), daemon, metav1.CreateOptions{})
	l.Must(err)
	return 2 + 2 + 3
}

// workloadState has the UIDs of the pods of the workloads, and of the revisions that their controllers create for each template.
type workloadState struct {
	Pods      map[string]types.UID
	Revisions map[string]types.UID
	// Templates are the pod specs of the templates, by kind.
	Templates map[string]corev1.PodSpec
}

// readWorkloadState waits until all pods of the workloads run, and returns the state.
func readWorkloadState(l *fixture, pods int) workloadState {
	l.Helper()
	g := workloadState{Pods: uidsByName(waitForRunning(l, here(l), "web", pods)), Revisions: map[string]types.UID{}, Templates: map[string]corev1.PodSpec{}}
	apps, all := here(l).Client.AppsV1(), metav1.ListOptions{LabelSelector: "app=web"}
	sets, err := apps.ReplicaSets(l.Namespace).List(l.Context(), all)
	l.Must(err)
	for _, s := range sets.Items {
		g.Revisions[s.Name+" "+s.Labels[appsv1.DefaultDeploymentUniqueLabelKey]] = s.UID
	}
	revisions, err := apps.ControllerRevisions(l.Namespace).List(l.Context(), all)
	l.Must(err)
	for _, r := range revisions.Items {
		g.Revisions[r.Name] = r.UID
	}
	deployment, err := apps.Deployments(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	stateful, err := apps.StatefulSets(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	daemon, err := apps.DaemonSets(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	g.Templates["deployment"], g.Templates["statefulset"], g.Templates["daemonset"] = deployment.Spec.Template.Spec, stateful.Spec.Template.Spec, daemon.Spec.Template.Spec
	return g
}

// expectUnchanged checks that the workloads still have the same pods, revisions and templates.
func (g workloadState) expectUnchanged(l *fixture, after string) {
	l.Helper()
	if diff := cmp.Diff(g, readWorkloadState(l, len(g.Pods))); diff != "" {
		l.Fatalf("workloads after %s (-before +after):\n%s", after, diff)
	}
}

// patchAllWorkloads patches all workloads, and returns their generations.
func patchAllWorkloads(l *fixture, how types.PatchType, patch string) [3]int64 {
	l.Helper()
	apps := here(l).Client.AppsV1()
	deployment, err := apps.Deployments(l.Namespace).Patch(l.Context(), "web", how, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
	stateful, err := apps.StatefulSets(l.Namespace).Patch(l.Context(), "web", how, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
	daemon, err := apps.DaemonSets(l.Namespace).Patch(l.Context(), "web", how, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
	return [3]int64{deployment.Generation, stateful.Generation, daemon.Generation}
}

// touchAllWorkloads changes a field of all workloads that does not create a revision, and waits until the controllers have observed the change.
func touchAllWorkloads(l *fixture, minReadySeconds int) {
	l.Helper()
	want := patchAllWorkloads(l, types.MergePatchType, fmt.Sprintf(`{"spec":{"minReadySeconds":%d}}`, minReadySeconds))
	l.Eventually(func() string {
		if seen := observedGenerations(l); seen[0] < want[0] || seen[1] < want[1] || seen[2] < want[2] {
			return fmt.Sprintf("controllers have observed the generations %v of the workloads, want %v", seen, want)
		}
		return ""
	})
}

// observedGenerations returns the generations of the workloads that their controllers have observed.
func observedGenerations(l *fixture) [3]int64 {
	l.Helper()
	apps := here(l).Client.AppsV1()
	deployment, err := apps.Deployments(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	stateful, err := apps.StatefulSets(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	daemon, err := apps.DaemonSets(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	return [3]int64{deployment.Status.ObservedGeneration, stateful.Status.ObservedGeneration, daemon.Status.ObservedGeneration}
}

// restartControllers restarts the controller manager, so that controllers list all objects again. It returns when they work: a Deployment
// created later has its pod.
func restartControllers(l *fixture, probe string) {
	l.Helper()
	cluster, ok := l.Federation().Workers()[0].(federation.Faults)
	if !ok {
		l.Fatal("the backend cannot restart controllers")
	}
	l.Must(cluster.Restart(l.Context(), federation.ControllerManager))
	createDeployment(l, here(l), probe, 1)
	waitForRunning(l, here(l), probe, 1)
}

// changeImage starts a rollout as a user does: it changes the image in all templates.
func changeImage(l *fixture, image string) {
	l.Helper()
	patchAllWorkloads(l, types.StrategicMergePatchType, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image))
}

// waitForPods waits until an application has exactly the given number of pods, all of them run, and problem returns "" for each.
func waitForPods(l *fixture, of string, pods int, problem func(*corev1.Pod) string) {
	l.Helper()
	l.Eventually(func() string {
		list, err := here(l).Client.CoreV1().Pods(l.Namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=" + of})
		l.Must(err)
		if len(list.Items) != pods {
			return fmt.Sprintf("%d pods of %s exist, want %d", len(list.Items), of, pods)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if word := problem(pod); word != "" || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
				return fmt.Sprintf("pod %s is %s: %s", pod.Name, pod.Status.Phase, word)
			}
		}
		return ""
	})
}

// tolerates reports whether a pod has a toleration of a key.
func tolerates(spec *corev1.PodSpec, key string) bool {
	for _, t := range spec.Tolerations {
		if t.Key == key {
			return true
		}
	}
	return false
}

// scaleWorkloads scales the Deployment and the StatefulSet, as kubectl scale does.
func scaleWorkloads(l *fixture, replicas int32) {
	l.Helper()
	deployments, sets := here(l).Client.AppsV1().Deployments(l.Namespace), here(l).Client.AppsV1().StatefulSets(l.Namespace)
	scale, err := deployments.GetScale(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	scale.Spec.Replicas = replicas
	_, err = deployments.UpdateScale(l.Context(), "web", scale, metav1.UpdateOptions{})
	l.Must(err)
	scale, err = sets.GetScale(l.Context(), "web", metav1.GetOptions{})
	l.Must(err)
	scale.Spec.Replicas = replicas
	_, err = sets.UpdateScale(l.Context(), "web", scale, metav1.UpdateOptions{})
	l.Must(err)
}
