package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// pollInterval is short, because a start waits about ten times in sequence.
const pollInterval = 50 * time.Millisecond

// waitFor calls check until it returns nil. When ctx ends first, the error has the cause and the last error of
// check.
func waitFor(ctx context.Context, description string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// The error of an interrupted check is less useful than the one before.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last seen: %w)", description, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// prober checks over TLS whether a server is ready.
type prober struct {
	client *http.Client
	url    string
}

func newProber(config *rest.Config) (*prober, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = 5 * time.Second // a frozen server must not block the next check
	return &prober{client: client, url: config.Host + "/readyz"}, nil
}

func (p *prober) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", p.url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// awaitUsable waits until pods can be created, and in a worker until they can run.
func (c *Cluster) awaitUsable(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(c.identities.admin)
	if err != nil {
		return err
	}
	return waitFor(ctx, "cluster "+c.spec.Name+" to become usable", func(ctx context.Context) error {
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
		nodes, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		if len(nodes.Items) < c.spec.Nodes {
			return fmt.Errorf("%d of %d nodes exist", len(nodes.Items), c.spec.Nodes)
		}
		var unready []error
		for _, node := range nodes.Items {
			unready = append(unready, checkAcceptsPods(&node))
		}
		return errors.Join(unready...)
	})
}

// checkAcceptsPods returns why a node would not run pods. The taint of a new node stays for a moment after it is ready.
func checkAcceptsPods(node *corev1.Node) error {
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("node %s is tainted %s", node.Name, node.Spec.Taints[0].Key)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", node.Name)
}
