package local

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// pollInterval is short, because a start waits about ten times in sequence.
const pollInterval = 50 * time.Millisecond

// readiness returns a check, over TLS, that a server is ready.
func readiness(config *rest.Config) (func(context.Context) error, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = 5 * time.Second // a frozen server must not block the next check
	return func(ctx context.Context) error { return subprocess.CheckURL(ctx, client, config.Host+"/readyz") }, nil
}

// awaitUsable waits until pods can be created, and in a worker until they can run.
func (c *Cluster) awaitUsable(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(c.identities.admin)
	if err != nil {
		return err
	}
	return federation.Await(ctx, pollInterval, "cluster "+c.spec.Name+" to become usable", func(ctx context.Context) error {
		if _, err := clients.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
			return err
		}
		if c.options.WithoutControllers {
			return nil
		}
		_, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil || !c.HasRole(federation.Worker) {
			return err
		}
		return federation.CheckNodes(ctx, clients, c.spec.Nodes)
	})
}
