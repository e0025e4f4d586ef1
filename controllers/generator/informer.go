package generator

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// kindWatch is a kind that is not built in, and its watch.
type kindWatch struct {
	kind     schema.GroupVersionKind
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
}

// startInformer runs an informer of metadata that calls onChange for each change, until ctx ends. isMetadata reports that the metadata has changed that
// the generator uses, and not the status alone.
func startInformer(
	ctx context.Context, objects metadata.ResourceInterface, kind schema.GroupVersionKind,
	onChange func(object *metav1.PartialObjectMetadata, isMetadata bool),
) (*kindWatch, error) {
	informer := toolscache.NewSharedIndexInformer(clusters.Retrying(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: objects.Watch,
	}), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	if err := informer.SetTransform(strip(stripMetadata(kind))); err != nil {
		return nil, err
	}
	handle := func(before, now any) {
		if deleted, ok := now.(toolscache.DeletedFinalStateUnknown); ok {
			now = deleted.Obj
		}
		old, _ := before.(*metav1.PartialObjectMetadata)
		if object, ok := now.(*metav1.PartialObjectMetadata); ok {
			onChange(object, old == nil || hasMetadataChanged(old, object))
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { handle(nil, now) },
		UpdateFunc: handle,
		DeleteFunc: func(deleted any) { handle(nil, deleted) },
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	go informer.RunWithContext(ctx)
	return &kindWatch{kind: kind, informer: informer, stop: stop}, nil
}
