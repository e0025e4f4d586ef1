package local_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestWorkerRunsPods(t *testing.T) {
	api := clients(t, sharedCluster(t))
	namespace := newNamespace(t, api)
	deployment, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", 12, nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "12 pods become ready", hasReady(api, namespace, 12, 12))

	t.Run("an annotation makes a pod unready and ready again", func(t *testing.T) {
		pods, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		annotate := func(value string) {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, federation.ReadyAnnotation, value)
			if _, err := api.CoreV1().Pods(namespace).Patch(t.Context(), pods.Items[0].Name, types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		annotate(`"false"`)
		eventually(t, "one pod becomes unready", hasReady(api, namespace, 12, 11))
		annotate("null")
		eventually(t, "the pod becomes ready again", hasReady(api, namespace, 12, 12))
	})

	t.Run("a container whose image is changed in place is restarted", func(t *testing.T) {
		pods, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"spec":{"containers":[{"name":"web","image":"example.test/web:2"}]}}`)
		changed, err := api.CoreV1().Pods(namespace).Patch(t.Context(), pods.Items[0].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod runs the new image and is ready again", func(ctx context.Context) error {
			pod, err := api.CoreV1().Pods(namespace).Get(ctx, changed.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			is := pod.Status.ContainerStatuses[0]
			if is.RestartCount != 1 || is.Image != "example.test/web:2" || !isReady(pod) || pod.Status.ObservedGeneration != changed.Generation {
				return fmt.Errorf("generation %d, status %+v", pod.Generation, pod.Status)
			}
			return nil
		})
	})

	t.Run("a deleted pod is replaced", func(t *testing.T) {
		pods, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		victim := pods.Items[0]
		if err := api.CoreV1().Pods(namespace).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a new pod replaces it", func(ctx context.Context) error {
			if _, err := api.CoreV1().Pods(namespace).Get(ctx, victim.Name, metav1.GetOptions{}); err == nil {
				return fmt.Errorf("pod %s still exists", victim.Name)
			}
			return hasReady(api, namespace, 12, 12)(ctx)
		})
	})

	t.Run("deleting the Deployment deletes its pods", func(t *testing.T) {
		if err := api.AppsV1().Deployments(namespace).Delete(t.Context(), deployment.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all pods are deleted", hasReady(api, namespace, 0, 0))
	})
}

func TestPodThatStartsUnreadyStaysUnready(t *testing.T) {
	api := clients(t, sharedCluster(t))
	namespace := newNamespace(t, api)
	unready := map[string]string{federation.ReadyAnnotation: "false"}
	if _, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", 2, unready), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two pods run, none ready", func(ctx context.Context) error {
		pods, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for _, pod := range pods.Items {
			if isReady(&pod) {
				t.Fatalf("pod %s is ready: %+v", pod.Name, pod.Status)
			}
			if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
				running++
			}
		}
		if running != 2 {
			return fmt.Errorf("%d pods run", running)
		}
		return nil
	})
}

func TestPodStartDelay(t *testing.T) {
	api := clients(t, sharedCluster(t))
	namespace := newNamespace(t, api)
	for name, start := range map[string]string{"slow": "1h", "brisk": "100ms"} {
		annotations := map[string]string{federation.StartAnnotation: start}
		if _, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment(name, 1, annotations), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both pods have a node, and one of them runs", func(ctx context.Context) error {
		pods, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		scheduled, ready := 0, 0
		for _, pod := range pods.Items {
			slow := pod.Annotations[federation.StartAnnotation] == "1h"
			if slow && pod.Status.Phase != corev1.PodPending {
				t.Fatalf("pod %s runs: %+v", pod.Name, pod.Status)
			}
			if pod.Spec.NodeName != "" {
				scheduled++
			}
			if isReady(&pod) {
				ready++
			}
		}
		if scheduled != 2 || ready != 1 {
			return fmt.Errorf("%d pods have a node, %d are ready", scheduled, ready)
		}
		return nil
	})
}

func TestJobCompletes(t *testing.T) {
	api := clients(t, sharedCluster(t))
	namespace := newNamespace(t, api)
	template := deployment("", 0, nil).Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec:       batchv1.JobSpec{Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](2), Template: template},
	}
	if _, err := api.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Job completes", func(ctx context.Context) error {
		job, err := api.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.Succeeded != 2 {
			return fmt.Errorf("status: %+v", job.Status)
		}
		return nil
	})
}

func newNamespace(t testing.TB, api kubernetes.Interface) string {
	t.Helper()
	namespace, err := api.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Before that, the ServiceAccount admission plugin denies pods.
	eventually(t, "the namespace has a ServiceAccount", func(ctx context.Context) error {
		_, err := api.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

func deployment(name string, replicas int32, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.test/web:1"}}},
			},
		},
	}
}

// hasReady checks how many pods exist and how many of them are ready.
func hasReady(api kubernetes.Interface, namespace string, total, ready int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		gotReady := 0
		var states []string
		for _, pod := range pods.Items {
			if isReady(&pod) {
				gotReady++
			}
			states = append(states, fmt.Sprintf("%s %s %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase))
		}
		if len(pods.Items) != total || gotReady != ready {
			return fmt.Errorf("%d pods, %d ready: %q", len(pods.Items), gotReady, states)
		}
		return nil
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
