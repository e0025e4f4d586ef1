package storm

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Image is the image of all pods. It is never pulled: kwok simulates the containers.
const Image = "registry.k8s.io/pause:3.10"

// retryPause is the retry interval for a cell that is not ready for new pods yet.
const retryPause = 50 * time.Millisecond

// Application is a set of pods labeled app=Name, spread evenly over cells.
type Application struct {
	Namespace string
	Name      string
	// Instance makes the names of the deployed objects unique in a cell. Use another instance to deploy the same application again beside
	// its remains. It may be empty.
	Instance string
	// Pods is their number over all cells. The first cells get the remainder.
	Pods            int
	MinReadySeconds int32
	// GraceSeconds holds the grace periods of the pods' deletion; each cell gets one Deployment for each entry. Empty means {0, 1}. A pod
	// with 0 vanishes with the very request that deletes it: no terminating pod is left that would reveal a lost reservation. A pod with
	// more terminates first, and its final deletion by the kubelet reaches the webhook again. Breakwater must handle both, and neither
	// hides the other.
	GraceSeconds []int64
}

// Scope returns the scope of the application's pods in these cells.
func (a Application) Scope(cells []Cell) Scope {
	return Scope{Cells: cells, Namespace: a.Namespace, Selector: "app=" + a.Name}
}

// Deploy creates the namespace and the Deployments. It does not wait for pods.
func (a Application) Deploy(ctx context.Context, cells []Cell) error {
	return inEachCell(cells, func(cell Cell) error {
		if err := ensureNamespace(ctx, cell, a.Namespace); err != nil {
			return err
		}
		for i, grace := range a.graces() {
			replicas := share(a.podsInCell(cell, cells), len(a.graces()), i)
			deployment := a.deployment(i, replicas, grace)
			_, err := cell.Client.AppsV1().Deployments(a.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create Deployment %s in cell %s: %w", deployment.Name, cell.Name, err)
			}
		}
		return nil
	})
}

// DeployBare creates the namespace and pods that no controller replaces, bound to no node: the scheduler places them. With such pods the
// judgement of a record is exact.
func (a Application) DeployBare(ctx context.Context, cells []Cell) error {
	return inEachCell(cells, func(cell Cell) error {
		if err := ensureNamespace(ctx, cell, a.Namespace); err != nil {
			return err
		}
		for i := range a.podsInCell(cell, cells) {
			graces := a.graces()
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", a.base(), i), Labels: a.labels()},
				Spec:       podSpec(graces[i%len(graces)]),
			}
			if err := createPod(ctx, cell, a.Namespace, pod); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a Application) graces() []int64 {
	if len(a.GraceSeconds) == 0 {
		return []int64{0, 1}
	}
	return a.GraceSeconds
}

func (a Application) podsInCell(cell Cell, cells []Cell) int {
	for i := range cells {
		if cells[i].Name == cell.Name {
			return share(a.Pods, len(cells), i)
		}
	}
	return 0
}

// share returns the part of n that the i-th of parts gets.
func share(n, parts, i int) int {
	if i < n%parts {
		return n/parts + 1
	}
	return n / parts
}

func (a Application) base() string {
	if a.Instance == "" {
		return a.Name
	}
	return a.Name + "-" + a.Instance
}

func (a Application) labels() map[string]string { return map[string]string{"app": a.Name} }

func (a Application) deployment(i, replicas int, grace int64) *appsv1.Deployment {
	count := int32(replicas)
	name := fmt.Sprintf("%s-%d", a.base(), i)
	// The pods of two Deployments must not have the same labels: their selectors would overlap.
	labels := a.labels()
	labels["deployment"] = name
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: a.Namespace, Labels: a.labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas:        &count,
			MinReadySeconds: a.MinReadySeconds,
			Selector:        &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       podSpec(grace),
			},
		},
	}
}

func podSpec(grace int64) corev1.PodSpec {
	noToken := false
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &noToken,
		Containers:                    []corev1.Container{{Name: "app", Image: Image}},
	}
}

func ensureNamespace(ctx context.Context, cell Cell, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := cell.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s in cell %s: %w", name, cell.Name, err)
	}
	return nil
}

// createPod creates a pod, and waits for the ServiceAccount of a new namespace: without it the API server forbids pods.
func createPod(ctx context.Context, cell Cell, namespace string, pod *corev1.Pod) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
		_, last = cell.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsForbidden(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil {
		if last != nil {
			err = last
		}
		return fmt.Errorf("create pod %s in cell %s: %w", pod.Name, cell.Name, err)
	}
	return nil
}
