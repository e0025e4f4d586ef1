package clusters

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestVersionsThatLeapOrGoBackShowRestore(t *testing.T) {
	for claim, c := range map[string]struct {
		seen     []string
		lost     uint64
		noticed  int
		lastSame bool
	}{
		"not at first":                  {[]string{"5000000000"}, 0, 0, true},
		"not when they increase":        {[]string{"100", "100", "101", "99000000"}, 0, 0, true},
		"when they go back":             {[]string{"100", "99"}, 100, 1, false},
		"when they leap":                {[]string{"100", "1000000050"}, 100, 1, false},
		"once, and then they increase":  {[]string{"100", "1000000050", "1000000051"}, 100, 1, true},
		"each time":                     {[]string{"100", "1000000050", "2000000051"}, 1000000050, 2, false},
		"not by what is not a version":  {[]string{"100", "", "x"}, 0, 0, true},
		"not by a first version of all": {[]string{"0", "100"}, 0, 0, true},
	} {
		t.Run(claim, func(t *testing.T) {
			p, noticed, same := &RestoreDetector{}, 0, true
			p.OnRestore(func() { noticed++ })
			for _, version := range c.seen {
				same = p.Observe(p.Mark(), version)
			}
			if p.LostVersion() != c.lost || noticed != c.noticed || same != c.lastSame {
				t.Errorf("lost %d, %d restores, same %v; want %+v", p.LostVersion(), noticed, same, c)
			}
		})
	}
}

func TestOperationsOfLostIncarnationShowNoFurtherRestore(t *testing.T) {
	p := &RestoreDetector{}
	p.Observe(p.Mark(), "100")
	began := p.Mark()
	if p.Observe(p.Mark(), "1000000050") || p.Observe(began, "101") || p.Observe(began, "1000000051") || p.IsSameIncarnation(began) {
		t.Error("IsSameIncarnation() = true for an operation from before the restore, want false")
	}
	late := p.markOf("90") // a watch that is reopened at its last version
	if p.Observe(late, "1000000052") || p.LostVersion() != 100 {
		t.Errorf("lost %d, want 100: the restore was detected before", p.LostVersion())
	}
	if !p.Observe(p.Mark(), "1000000053") {
		t.Error("Observe() = false in the new incarnation, want true")
	}
	var disabled *RestoreDetector
	if !disabled.Observe(disabled.Mark(), "1") || disabled.LostVersion() != 0 || !disabled.IsSameIncarnation(began) {
		t.Error("a nil detector reports a restore")
	}
}

// fakeSource is a core whose list has a fixed version, and whose watch shows the events that the test sends.
type fakeSource struct {
	version  string
	requests metav1.ListOptions
	shows    *watch.FakeWatcher
}

func (s *fakeSource) listWatch() *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			s.requests = options
			return &v1alpha1.PodProtectorList{ListMeta: metav1.ListMeta{ResourceVersion: s.version}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.requests = options
			return s.shows, nil
		},
	}
}

func at(version int, ended bool) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
	if ended {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return p
}

func TestCacheDetectsRestoreBeforeItShowsObjects(t *testing.T) {
	detector, core := &RestoreDetector{}, &fakeSource{version: "100", shows: watch.NewFake()}
	from := retrying(core.listWatch(), detector)
	list := func(want uint64) {
		t.Helper()
		if _, err := from.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}); err != nil {
			t.Fatal(err)
		}
		if detector.LostVersion() != want || core.requests.ResourceVersion != "" || core.requests.ResourceVersionMatch != "" {
			t.Errorf("lost %d, want %d; asked %+v, want the newest state", detector.LostVersion(), want, core.requests)
		}
	}
	list(0)
	core.version = "1000000100"
	list(100)

	initial := true
	w, err := from.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &initial, ResourceVersion: "7"})
	if err != nil || core.requests.ResourceVersion != "" {
		t.Fatalf("asked %+v: %v", core.requests, err)
	}
	show := func(object runtime.Object, want uint64) {
		t.Helper()
		go core.shows.Modify(object)
		select {
		case <-w.ResultChan():
		case <-time.After(10 * time.Second):
			t.Fatal("the object is not shown")
		}
		if detector.LostVersion() != want {
			t.Errorf("lost %d, want %d", detector.LostVersion(), want)
		}
	}
	show(at(3, false), 100) // an initial event; initial events come in any order
	show(at(1000000200, true), 100)
	show(at(1000000201, false), 100)
	show(at(50, false), 1000000201)
	w.Stop()
	w.Stop()
}

func TestWriteToRestoredCoreFails(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	bump := ""
	c := fake.NewClientBuilder().WithScheme(Scheme()).WithStatusSubresource(p).WithObjects(p).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, part string, object client.Object, options ...client.SubResourceUpdateOption) error {
			err := c.SubResource(part).Update(ctx, object, options...)
			if bump != "" {
				object.SetResourceVersion(bump)
			}
			return err
		},
	}).Build()
	s := &Protectors{Cache: c, Live: c, Writer: c, RestoreDetector: &RestoreDetector{}}
	write := func() error {
		now, err := s.Read(t.Context(), client.ObjectKeyFromObject(p))
		if err != nil {
			t.Fatal(err)
		}
		now.Status.DisruptionsAllowed++
		return s.WriteStatus(t.Context(), now)
	}
	for range 2 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	bump = "1000000900"
	if err := write(); !errors.Is(err, ErrCoreRestored) {
		t.Errorf("error %v, want %v", err, ErrCoreRestored)
	}
	bump = "1000000901"
	if err := write(); err != nil {
		t.Errorf("error %v after the restore was detected, want none", err)
	}
}
