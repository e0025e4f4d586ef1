package sharding

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const leaseDuration = 15 * time.Second

// fakeAPIServer is an API server with one Lease, in a synctest bubble: time advances when all goroutines are blocked.
type fakeAPIServer struct {
	*testing.T
	client client.Client
	// With away, the API server answers only errors. With silent, it stores the writes but answers errors. With hanging, it does
	// not answer.
	unreachable, silent, hanging atomic.Bool
	// writes counts the writes of shards.
	writes atomic.Int64
}

// withFakeAPIServer runs a test. The Lease, if there is one, belongs to shard a.
func withFakeAPIServer(t *testing.T, lease *coordinationv1.Lease, play func(*fakeAPIServer)) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := coordinationv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		building := fake.NewClientBuilder().WithScheme(scheme)
		if lease != nil {
			building = building.WithObjects(lease)
		}
		s := &fakeAPIServer{T: t, client: building.Build()}
		play(s)
	})
}

func leaseOf(ring, holder string) *coordinationv1.Lease {
	seconds, now := int32(leaseDuration/time.Second), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shards", Name: "a"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if ring != "" {
		lease.Labels = map[string]string{v1alpha1.LabelRing: ring}
	}
	return lease
}

func (s *fakeAPIServer) lease() *coordinationv1.Lease {
	s.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "shards", Name: "a"}, lease); err != nil {
		s.Fatal(err)
	}
	return lease
}

func (s *fakeAPIServer) updateLease(updateLease func(*coordinationv1.Lease)) {
	s.Helper()
	lease := s.lease()
	updateLease(lease)
	if err := s.client.Update(s.Context(), lease); err != nil {
		s.Fatal(err)
	}
}

func (s *fakeAPIServer) wantHolder(want string) {
	s.Helper()
	synctest.Wait()
	if have := leaseholder.Of(s.lease()); have != want {
		s.Errorf("the Lease is held by %q, want %q", have, want)
	}
}

// shardClient returns the API server as shards see it.
func (s *fakeAPIServer) shardClient() client.Client {
	read := func(ctx context.Context, what func() error) error {
		if s.hanging.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		if s.unreachable.Load() {
			return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
		}
		return what()
	}
	write := func(ctx context.Context, what func() error) error {
		err := read(ctx, what)
		if s.writes.Add(1); err == nil && s.silent.Load() {
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1)
		}
		return err
	}
	return interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return read(ctx, func() error { return c.Get(ctx, key, o, options...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return write(ctx, func() error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return write(ctx, func() error { return c.Update(ctx, o, options...) })
		},
	})
}

// participant is an incarnation of shard a with an elector of client-go, as in a manager.
type participant struct {
	*fakeAPIServer
	lock *lock
	stop context.CancelFunc
	// ended is closed when the elector has stopped.
	ended chan struct{}
}

// lockOf returns the lock of an incarnation of shard a.
func (s *fakeAPIServer) lockOf(incarnated string, stable bool) *lock {
	return &lock{
		incarnation: incarnation{ring: "r", name: "a", identity: "a_" + incarnated, duration: leaseDuration},
		client:      s.shardClient(), key: client.ObjectKey{Namespace: "shards", Name: "a"}, stable: stable,
		hold: newLeaseHold(leaseDuration), work: newWork(),
	}
}

func (s *fakeAPIServer) startIncarnation(incarnated string, stable bool) *participant {
	a := &participant{fakeAPIServer: s, ended: make(chan struct{}), lock: s.lockOf(incarnated, stable)}
	election := a.lock.electionConfig(func(context.Context) {})
	election.ReleaseOnCancel = true // as in a manager
	elector, err := leaderelection.NewLeaderElector(election)
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.Context())
	a.stop = stop
	go func() {
		elector.Run(ctx)
		close(a.ended)
	}()
	s.Cleanup(func() {
		stop()
		<-a.ended
	})
	synctest.Wait()
	return a
}

func (a *participant) wantHeld(want bool, when string) {
	a.Helper()
	synctest.Wait()
	if err := a.lock.hold.err(); (err == nil) != want {
		a.Errorf("%s: held: %t (%v), want %t", when, err == nil, err, want)
	}
}

func sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
