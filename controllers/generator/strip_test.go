package generator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A user who deletes a protector waits for this cache after the core was unreachable: the keeper removes its finalizer when it observes the
// deletion.
func TestInformerRetriesUnreachableCoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, errUnreachable := 0, errors.New("connection refused")
		informer := CacheOptions().NewInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				attempts++
				return nil, errUnreachable
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				attempts++
				return nil, errUnreachable
			},
		}, &v1alpha1.PodProtector{}, 0, toolscache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(done) }()
		<-time.After(5 * time.Minute)
		before := attempts
		<-time.After(time.Minute)
		if got := attempts - before; got < 20 {
			t.Errorf("got %d lists and watches in a minute, want at least 20", got)
		}
		cancel()
		<-done
	})
}
