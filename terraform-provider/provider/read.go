package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/breakwater-k8s/breakwater/terraform-provider/refresh"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

const (
	// planTimeout is how long a plan that can do without the cluster waits for an answer.
	planTimeout = 10 * time.Second
	// readTimeout is how long a read retries while the cluster does not answer. The outage of the cluster stops it before it expires.
	readTimeout = transport.DefaultPatience + 10*time.Second
)

// get reads an object.
func (c *cluster) get(ctx context.Context, k *kind, namespace, name string) (live *unstructured.Unstructured, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = transport.Retry(ctx, func(ctx context.Context) (err error) {
		live, err = c.resourceClient(k, namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return live, err
}

// list yields the objects of a kind that a label selector matches, page by page as the caller consumes them. An empty namespace
// means all namespaces; limit 0 means no limit. list stops after an error.
func (c *cluster) list(ctx context.Context, k *kind, namespace, selector string, limit int64) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		options, left := metav1.ListOptions{LabelSelector: selector, Limit: refresh.PageSize}, limit
		for {
			if limit > 0 {
				options.Limit = min(refresh.PageSize, left)
			}
			page, err := c.page(ctx, k, namespace, options)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				left--
				if !yield(&page.Items[i], nil) || left == 0 {
					return
				}
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				return
			}
		}
	}
}

// page reads one page. If the API server no longer has the resourceVersion of the previous pages, page continues with the current
// objects after the last name. No object is read twice.
func (c *cluster) page(ctx context.Context, k *kind, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var page *unstructured.UnstructuredList
	read := func(ctx context.Context) (err error) {
		page, err = c.resourceClient(k, namespace).List(ctx, options)
		return err
	}
	err := transport.Retry(ctx, read)
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		options.Continue = status.Status().Continue
		err = transport.Retry(ctx, read)
	}
	return page, err
}

var (
	// errNotCompared is the error of a plan that does not require the cluster and could not compare the object with it.
	errNotCompared = errors.New("the plan shows only the configuration and the state")
	// errNotKubernetes is the error of a server that answers, but is not an API server.
	errNotKubernetes = errors.New("the server is not a Kubernetes API server: check host and port")
)

// sendForPlan sends a request of a plan. A plan that requires the cluster retries it until the cluster counts as unreachable. Other plans
// try once. Their error is errNotCompared if there is no cluster, no answer, or an answer that may differ later (transport.IsTransient). An
// answer that denies the request is an error for both.
func (c *cluster) sendForPlan(ctx context.Context, required bool, send func(context.Context) error) error {
	switch err := c.absence(); {
	case err != nil && required:
		return fmt.Errorf("the provider has no cluster: %w; a plan compares resources with the cluster once they are in the state, unless require_cluster is false", err)
	case err != nil:
		return fmt.Errorf("%w: %w", errNotCompared, err)
	case required:
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return transport.Retry(ctx, send)
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	err := send(ctx)
	if transport.IsOutage(err) || transport.IsTransient(err) {
		return fmt.Errorf("%w: %w", errNotCompared, err)
	}
	return err
}

// readListedForPlan is readForPlan for an object that is in the state: a list can serve many of one namespace.
func (c *cluster) readListedForPlan(ctx context.Context, k *kind, w *desired, required bool) (*unstructured.Unstructured, error) {
	if c.absence() == nil { // otherwise there are no lists
		if live, found := c.lists.Find(ctx, k.key(w.namespace), w.name); found {
			return live, nil
		}
	}
	return c.readForPlan(ctx, k, w, required)
}

// readForPlan reads the object for a plan.
func (c *cluster) readForPlan(ctx context.Context, k *kind, w *desired, required bool) (live *unstructured.Unstructured, err error) {
	err = c.sendForPlan(ctx, required, func(ctx context.Context) (err error) {
		live, err = c.resourceClient(k, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		return err
	})
	if transport.IsKindMissing(err) {
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
	case transport.IsOutage(err), transport.IsTransient(err), apierrors.IsUnauthorized(err):
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
