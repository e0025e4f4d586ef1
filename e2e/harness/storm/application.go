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

// Image of all pods. It is never pulled: kwok plays the containers.
const Image = "registry.k8s.io/pause:3.10"

// retryPause is how long to wait for a cell that is not ready for new pods yet.
const retryPause = 50 * time.Millisecond

// Application is a set of pods labelled app=Name, spread evenly over cells.
type Application struct {
	Namespace string
	Name      string
	// Instance makes the names of what is deployed unique in a cell: deploy the same application again, beside what
	// is left of it, under another instance. It may be empty.
	Instance string
	// Pods is their number over all cells. The first cells get what cannot be shared evenly.
	Pods            int
	MinReadySeconds int32
	// GraceSeconds holds the grace periods of the pods' deletion; each cell gets one Deployment for each entry.
	// Empty means {0, 1}. A pod with 0 vanishes with the very request that deletes it: nothing is left to count it
	// by, and a lost reservation cannot be noticed from a terminating pod. One with more terminates first, and
	// its last deletion by the kubelet meets the webhook again. Both ways must hold, and neither hides the other.
	GraceSeconds []int64
}

// Scope is the scope of the application's pods in these cells.
func (a Application) Scope(cells []Cell) Scope {
	return Scope{Cells: cells, Namespace: a.Namespace, Selector: "app=" + a.Name}
}

// Deploy makes the namespace and the Deployments. It does not wait for pods.
func (a Application) Deploy(ctx context.Context, cells []Cell) error {
	return inEachCell(cells, func(cell Cell) error {
		if err := ensureNamespace(ctx, cell, a.Namespace); err != nil {
			return err
		}
		for i, grace := range a.graces() {
			replicas := share(a.inCell(cell, cells), len(a.graces()), i)
			deployment := a.deployment(i, replicas, grace)
			_, err := cell.Client.AppsV1().Deployments(a.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create Deployment %s in cell %s: %w", deployment.Name, cell.Name, err)
			}
		}
		return nil
	})
}

// DeployBare makes the namespace and pods that no controller replaces, bound to no node: the scheduler places
// them. With such pods the judgement of a record is exact.
func (a Application) DeployBare(ctx context.Context, cells []Cell) error {
	return inEachCell(cells, func(cell Cell) error {
		if err := ensureNamespace(ctx, cell, a.Namespace); err != nil {
			return err
		}
		for i := range a.inCell(cell, cells) {
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

func (a Application) inCell(cell Cell, cells []Cell) int {
	for i := range cells {
		if cells[i].Name == cell.Name {
			return share(a.Pods, len(cells), i)
		}
	}
	return 0
}

// share is the part of n that the i-th of parts gets.
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

// createPod creates a pod, and waits for the ServiceAccount of a new namespace: without it pods are forbidden.
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
