package kind

import (
	"context"
	"errors"
	"time"

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
	if err := federation.CheckNodes(ctx, clients, want); err != nil {
		return err
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
