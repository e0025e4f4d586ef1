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
func TestACoreThatWasAwayIsReadSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, away := 0, errors.New("connection refused")
		informer := CacheOptions().NewInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { asked++; return nil, away },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				asked++
				return nil, away
			},
		}, &v1alpha1.PodProtector{}, 0, toolscache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(done) }()
		<-time.After(5 * time.Minute)
		before := asked
		<-time.After(time.Minute)
		if got := asked - before; got < 20 {
			t.Errorf("asked %d times in a minute, want once in three seconds at least", got)
		}
		cancel()
		<-done
	})
}
