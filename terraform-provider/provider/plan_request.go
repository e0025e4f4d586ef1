package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
)

// planTimeout is how long a plan that can do without the cluster waits for an answer.
const planTimeout = 10 * time.Second

var (
	// errNotCompared is the error of a plan that does not require the cluster, and got no answer.
	errNotCompared = errors.New("the plan shows only the configuration and the state")
	// errNotKubernetes is the error of a server that answers, but is not an API server.
	errNotKubernetes = errors.New("the server is not a Kubernetes API server: check host and port")
)

// sendForPlan sends a request of a plan. A plan that requires the cluster retries it until the cluster counts as unreachable. Other plans
// try once; their error is errNotCompared if there is no answer. An answer that denies the
// request is an error for both.
func (c *cluster) sendForPlan(ctx context.Context, required bool, send func(context.Context) error) error {
	switch err := c.absence(); {
	case err != nil && required:
		return fmt.Errorf("the provider has no cluster: %w; a plan compares resources with the cluster once they are in the state, unless require_cluster is false", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errNotCompared, err)
	case required:
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return retryTransient(ctx, send)
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	err := send(ctx)
	if isOutage(err) || isTransient(err) {
		return fmt.Errorf("%w: %w", errNotCompared, err)
	}
	return err
}

// refresh is readForPlan for an object that is in the state. It reads many of one namespace together.
func (c *cluster) refresh(ctx context.Context, k *kind, w *desired, required bool) (*unstructured.Unstructured, error) {
	var live *unstructured.Unstructured
	found := false
	_ = c.sendForPlan(ctx, required, func(ctx context.Context) error {
		live, found = c.lists.find(ctx, k, w.namespace, w.name)
		return nil
	})
	if found {
		return live, nil
	}
	return c.readForPlan(ctx, k, w, required)
}

// readForPlan reads the object for a plan.
func (c *cluster) readForPlan(ctx context.Context, k *kind, w *desired, required bool) (live *unstructured.Unstructured, err error) {
	err = c.sendForPlan(ctx, required, func(ctx context.Context) (err error) {
		live, err = c.resourceClient(k, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		return err
	})
	if isKindMissing(err) {
		// A server that is not an API server does not know the kind either.
		if e := c.sendForPlan(ctx, required, c.checkVersion); e != nil {
			return nil, e
		}
	}
	return live, err
}

// checkVersion returns an error if the server is not an API server. Every user may read the version of most clusters.
func (c *cluster) checkVersion(ctx context.Context) error {
	version, err := c.version(ctx)
	switch {
	case apierrors.IsForbidden(err) && !apierrors.IsUnexpectedServerError(err):
		return nil
	case isOutage(err), isTransient(err), apierrors.IsUnauthorized(err):
		return err
	case err != nil:
		return fmt.Errorf("%w: %v", errNotKubernetes, err) //nolint:errorlint // NotFound would be that of an object
	case version == "":
		return errNotKubernetes
	}
	return nil
}

// version returns the version of the API server.
func (c *cluster) version(ctx context.Context) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.client)
	if err != nil {
		return "", err
	}
	version, err := client.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}
