package clusters_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// lateCache shows a protector as it was when catchUp was last called.
type lateCache struct {
	client.Reader
	live client.Reader
	seen *v1alpha1.PodProtector // nil if the cache has none
	err  error
}

func (c *lateCache) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch {
	case c.err != nil:
		return c.err
	case c.seen == nil:
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), key.Name)
	}
	c.seen.DeepCopyInto(object.(*v1alpha1.PodProtector))
	return nil
}

func (c *lateCache) catchUp(t *testing.T) {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	err := c.live.Get(t.Context(), key, p)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if c.seen = p; err != nil {
		c.seen = nil
	}
}

var key = client.ObjectKey{Namespace: "default", Name: "web"}

// newProtectors returns the Protectors of a core with one protector, and its cache, which only catchUp updates.
func newProtectors(t *testing.T) (*clusters.Protectors, *lateCache, client.WithWatch) {
	t.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	c := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(p).WithObjects(p).Build()
	cache := &lateCache{live: c}
	cache.catchUp(t)
	return &clusters.Protectors{Cache: cache, Live: c, Writer: c}, cache, c
}

func newest(t *testing.T, s *clusters.Protectors) *v1alpha1.PodProtector {
	t.Helper()
	p, err := s.Newest(t.Context(), key)
	if err != nil {
		t.Fatalf("newest: %v", err)
	}
	return p
}

// ownWrite stores a number of allowed disruptions, to distinguish one state from another.
func ownWrite(t *testing.T, s *clusters.Protectors, number int32) {
	t.Helper()
	p := newest(t, s)
	p.Status.DisruptionsAllowed = number
	if err := s.WriteStatus(t.Context(), p); err != nil {
		t.Fatalf("write %d: %v", number, err)
	}
}

func wantNewest(t *testing.T, s *clusters.Protectors, want int32) {
	t.Helper()
	if p := newest(t, s); p.Status.DisruptionsAllowed != want {
		t.Errorf("newest is state %d at version %s, want state %d", p.Status.DisruptionsAllowed, p.ResourceVersion, want)
	}
}

func TestNewestIsOwnWriteUntilCacheHasIt(t *testing.T) {
	s, cache, other := newProtectors(t)
	wantNewest(t, s, 0)
	ownWrite(t, s, 1)
	wantNewest(t, s, 1)
	ownWrite(t, s, 2) // based on a state that the cache does not have yet
	wantNewest(t, s, 2)
	cache.catchUp(t)
	wantNewest(t, s, 2)

	p := newest(t, s)
	p.Status.DisruptionsAllowed = 3
	if err := other.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cache.catchUp(t)
	wantNewest(t, s, 3)
}

// A restore gives a protector a version below that of the own write, and may have undone its last spec (simulation, 1800413). No process relies on what the
// lost incarnation had (rule 11).
func TestNewestIsNoOwnWriteOfALostIncarnation(t *testing.T) {
	s, _, _ := newProtectors(t)
	s.RestoreDetector = &clusters.RestoreDetector{}
	ownWrite(t, s, 1)
	wantNewest(t, s, 1)
	if s.RestoreDetector.Observe(s.RestoreDetector.Mark(), "1") {
		t.Fatal("the restore was not detected")
	}
	wantNewest(t, s, 0)
}

func TestNewestIsACopy(t *testing.T) {
	s, _, _ := newProtectors(t)
	for _, known := range []string{"from the cache", "of our own"} {
		newest(t, s).Status.DisruptionsAllowed = 99
		if p := newest(t, s); p.Status.DisruptionsAllowed == 99 {
			t.Errorf("a change of the newest state %s changed later results", known)
		}
		ownWrite(t, s, 1)
	}
}

func TestWriteStatusDoesNotKeepCallersObject(t *testing.T) {
	s, _, _ := newProtectors(t)
	p := newest(t, s)
	before := p.ResourceVersion
	if err := s.WriteStatus(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.ResourceVersion == before {
		t.Error("the object is not what was stored")
	}
	p.Status.DisruptionsAllowed = 99
	wantNewest(t, s, 0)
}

func TestConflictIsReturnedAndReadShowsWinner(t *testing.T) {
	s, cache, other := newProtectors(t)
	won := newest(t, s)
	won.Status.DisruptionsAllowed = 7
	if err := other.Status().Update(t.Context(), won); err != nil {
		t.Fatal(err)
	}
	late := newest(t, s)
	late.Status.DisruptionsAllowed = 1
	if err := s.WriteStatus(t.Context(), late); !apierrors.IsConflict(err) {
		t.Fatalf("error %v, want a conflict: the object was written since", err)
	}
	// A write that failed must not be mistaken for the stored state.
	wantNewest(t, s, 0)
	p, err := s.Read(t.Context(), key)
	if err != nil || p.Status.DisruptionsAllowed != 7 {
		t.Fatalf("read %+v, error %v; want the winner of the conflict", p, err)
	}
	p.Status.DisruptionsAllowed = 8
	if err := s.WriteStatus(t.Context(), p); err != nil {
		t.Fatalf("write after reading again: %v", err)
	}
	wantNewest(t, s, 8)
	cache.catchUp(t)
	wantNewest(t, s, 8)
}

func TestDeletedProtectorIsForgotten(t *testing.T) {
	s, cache, other := newProtectors(t)
	ownWrite(t, s, 5)
	if err := other.Delete(t.Context(), newest(t, s)); err != nil {
		t.Fatal(err)
	}
	cache.catchUp(t)
	if p, err := s.Newest(t.Context(), key); !apierrors.IsNotFound(err) {
		t.Errorf("newest %+v, error %v; want not found", p, err)
	}
	if _, err := s.Read(t.Context(), key); !apierrors.IsNotFound(err) {
		t.Errorf("read: %v, want not found", err)
	}
	again := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := other.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	cache.catchUp(t)
	wantNewest(t, s, 0)
}

func TestIncomparableVersionsFail(t *testing.T) {
	s, cache, _ := newProtectors(t)
	ownWrite(t, s, 1)
	cache.seen.ResourceVersion = "opaque"
	if p, err := s.Newest(t.Context(), key); err == nil {
		t.Errorf("newest %+v of incomparable versions, want an error", p)
	}
	cache.err = context.DeadlineExceeded
	if _, err := s.Newest(t.Context(), key); err == nil {
		t.Error("no error although the cache has one")
	}
}

func TestAfterUsesWatchBeforeAPIServer(t *testing.T) {
	s, cache, other := newProtectors(t)
	lost := newest(t, s)
	won := newest(t, s)
	won.Status.DisruptionsAllowed = 7
	if err := other.Status().Update(t.Context(), won); err != nil {
		t.Fatal(err)
	}
	reads := &countingReader{Reader: s.Live}
	s.Live = reads
	wantAfter := func(claim string, want int) {
		t.Helper()
		p, err := s.After(t.Context(), lost)
		if err != nil || p.Status.DisruptionsAllowed != 7 || reads.n != want {
			t.Errorf("%s: state %+v, error %v, after %d live reads; want the state that won, after %d", claim, p, err, reads.n, want)
		}
	}
	wantAfter("the watch is behind", 1)
	cache.catchUp(t)
	wantAfter("the watch has brought it", 1)
}

type countingReader struct {
	client.Reader
	n int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.n++
	return r.Reader.Get(ctx, key, object, options...)
}
