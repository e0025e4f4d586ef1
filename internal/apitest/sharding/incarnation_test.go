package sharding_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// incarnation is shard a in the test process. Its work ends when finish is closed.
type incarnation struct {
	*ring
	shard  *sharding.Shard
	stop   context.CancelFunc
	ended  chan error
	work   chan context.Context
	finish chan struct{}
}

func (r *ring) startIncarnation(after *sharding.Shard) *incarnation {
	r.Helper()
	i := &incarnation{ring: r, ended: make(chan error, 1), work: make(chan context.Context, 1), finish: make(chan struct{})}
	testplane.Eventually(r, func() string {
		var err error
		i.shard, err = sharding.New(r.Context(), r.account, sharding.Options{Ring: r.name, Name: "a", Stable: true, After: after})
		if err != nil {
			return err.Error() // permissions take a moment to apply
		}
		return ""
	})
	ctx, stop := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	i.stop = stop
	r.Cleanup(stop)
	go func() {
		i.ended <- i.shard.Run(ctx, func(ctx context.Context) {
			i.work <- ctx
			<-ctx.Done()
			<-i.finish
		})
	}()
	return i
}

// awaitHolder waits until the Lease has the given holder.
func (r *ring) awaitHolder(want string) {
	r.Helper()
	testplane.Eventually(r, func() string {
		if have := r.holder("a"); have != want {
			return fmt.Sprintf("the Lease is held by %q, want %q", have, want)
		}
		return ""
	})
}

func TestProcessRunsSeveralIncarnations(t *testing.T) {
	t.Parallel()
	r := newRing(t, 4)

	revoked := r.startIncarnation(nil)
	work := <-revoked.work
	r.awaitHolder(revoked.shard.Identity())
	r.setHolder("a", "breakwater-sharder")
	<-work.Done()
	if !errors.Is(context.Cause(work), sharding.ErrNotHeld) {
		t.Errorf("cause of the work context = %v", context.Cause(work))
	}
	if holder := r.holder("a"); holder != "breakwater-sharder" {
		t.Errorf("Lease released during work, holder = %q", holder)
	}
	close(revoked.finish)
	if err := <-revoked.ended; !errors.Is(err, sharding.ErrNotHeld) {
		t.Errorf("it ends with %v", err)
	}
	r.awaitHolder("")

	lapsed := r.startIncarnation(revoked.shard)
	<-lapsed.work
	r.setLeaseDuration(600) // another process would wait that long, because it cannot know that no work of this incarnation is left
	may := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "example"}}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(may), may); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), may); err != nil {
		t.Fatal(err)
	}
	close(lapsed.finish)
	if err := <-lapsed.ended; !errors.Is(err, sharding.ErrNotHeld) {
		t.Errorf("it ends with %v", err)
	}
	r.awaitHolder(lapsed.shard.Identity())
	may.ResourceVersion, may.UID = "", ""
	if err := r.Create(t.Context(), may); err != nil {
		t.Fatal(err)
	}

	stopped := r.startIncarnation(lapsed.shard)
	<-stopped.work // a shard that is stopped before it knows that it holds the Lease leaves it to expire
	r.awaitHolder(stopped.shard.Identity())
	stopped.stop()
	close(stopped.finish)
	if err := <-stopped.ended; err != nil {
		t.Errorf("a stop is no error: %v", err)
	}
	r.awaitHolder("a_")
}
