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
	// pageSize bounds how many objects are read at once.
	pageSize = 500
	// readPatience is how long a read goes on asking a cluster that does not answer.
	readPatience = 30 * time.Second
)

// get reads an object.
func (c *cluster) get(ctx context.Context, k *kind, namespace, name string) (live *unstructured.Unstructured, err error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	err = persist(ctx, func(ctx context.Context) (err error) {
		live, err = c.of(k, namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return live, err
}

// list are the objects of a kind that a label selector chooses, page by page as they are taken: in a namespace, or in all when
// that is empty. Of no more than limit of them are pages read; 0 is no limit. An error ends it.
func (c *cluster) list(ctx context.Context, k *kind, namespace, selector string, limit int64) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		options, left := metav1.ListOptions{LabelSelector: selector}, limit
		for {
			options.Limit = pageSize
			if limit > 0 {
				options.Limit = min(pageSize, left)
			}
			page, err := c.page(ctx, k, namespace, options)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			left -= int64(len(page.Items))
			options.Continue = page.GetContinue()
			if options.Continue == "" || limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// page reads one page. Where the apiserver has forgotten the state that the pages before were of, it goes on by what there is
// now after the last name: nothing is read twice.
func (c *cluster) page(ctx context.Context, k *kind, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	var page *unstructured.UnstructuredList
	read := func(ctx context.Context) (err error) {
		page, err = c.of(k, namespace).List(ctx, options)
		return err
	}
	err := persist(ctx, read)
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		options.Continue = status.Status().Continue
		err = persist(ctx, read)
	}
	return page, err
}
