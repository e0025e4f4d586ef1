package sharder

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// requestTimeout bounds each request: an API server that does not answer must not block a pass for ever.
const requestTimeout = time.Minute

// object is the part of an object that the sharder reads.
type object = metav1.PartialObjectMetadata

// objects reads and labels the objects of a cluster.
type objects interface {
	list(ctx context.Context, of *resource, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	get(ctx context.Context, of *resource, namespace, name string) (*object, error)
	// label changes labels of an object, unless it has changed since it was read; nil removes a label.
	label(ctx context.Context, of *resource, o *object, labels map[string]any) (*object, error)
}

// cluster implements objects for a real cluster.
type cluster struct{ metadata.Interface }

func (c cluster) list(ctx context.Context, res *resource, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Resource(res.versioned()).List(ctx, options)
}

func (c cluster) get(ctx context.Context, res *resource, namespace, name string) (*object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Resource(res.versioned()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c cluster) label(ctx context.Context, res *resource, o *object, labels map[string]any) (*object, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion, "labels": labels}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Resource(res.versioned()).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Name})
}
