package kind

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// pollInterval is the interval between checks of a cluster.
const pollInterval = 250 * time.Millisecond

// awaitUsable waits until pods can run and resolve names: kind waits only until the control plane answers.
func awaitUsable(ctx context.Context, admin *rest.Config, nodes int) error {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	return federation.Await(ctx, pollInterval, "a usable cluster", func(ctx context.Context) error { return checkUsable(ctx, clients, nodes) })
}

// checkUsable returns why pods cannot run yet.
func checkUsable(ctx context.Context, clients kubernetes.Interface, want int) error {
	if _, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	found, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(found.Items) < want {
		return fmt.Errorf("%d of %d nodes are registered", len(found.Items), want)
	}
	for _, node := range found.Items {
		if !isReady(&node) {
			return fmt.Errorf("node %s is not ready: %+v", node.Name, node.Status.Conditions)
		}
	}
	names, err := clients.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if names.Status.AvailableReplicas == 0 {
		return errors.New("no pod of coredns is available")
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
