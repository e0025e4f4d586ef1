package provider

import (
	"context"
	"errors"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// pageSize limits how many objects one list request returns.
	pageSize = 500
	// readTimeout is how long a read retries while the cluster does not answer. The outageGuard stops it before it expires.
	readTimeout = defaultPatience + 10*time.Second
)

// get reads an object.
func (c *cluster) get(ctx context.Context, k *kind, namespace, name string) (live *unstructured.Unstructured, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = retryTransient(ctx, func(ctx context.Context) (err error) {
		live, err = c.resourceClient(k, namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return live, err
}

// list yields the objects of a kind that a label selector matches, page by page as the caller consumes them. An empty namespace
// means all namespaces; limit 0 means no limit. list stops after an error.
func (c *cluster) list(ctx context.Context, k *kind, namespace, selector string, limit int64) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		options, left := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}, limit
		for {
			if limit > 0 {
				options.Limit = min(pageSize, left)
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
	err := retryTransient(ctx, read)
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		options.Continue = status.Status().Continue
		err = retryTransient(ctx, read)
	}
	return page, err
}
