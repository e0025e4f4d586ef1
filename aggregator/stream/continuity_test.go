package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// fakeStream is a stream of pods with its own clock.
type fakeStream struct {
	*testing.T
	now      time.Time
	stream   *Continuity
	requests []metav1.ListOptions
}

func (c *fakeStream) passTime(d time.Duration) { c.now = c.now.Add(d) }

// open opens a watch, which the API server answers after a delay.
func (c *fakeStream) open(options metav1.ListOptions, failure error, delay time.Duration) error {
	_, err := c.stream.Watch(c.Context(), options, func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		c.requests = append(c.requests, options)
		c.passTime(delay)
		return watch.NewFake(), failure
	})
	return err
}

func (c *fakeStream) mustOpen(options metav1.ListOptions) {
	c.Helper()
	if err := c.open(options, nil, 0); err != nil {
		c.Fatal(err)
	}
}

func TestStreamResumesOnlyWithSameHistory(t *testing.T) {
	yes, hour := true, int64(3600)
	list := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersion: "7", TimeoutSeconds: &hour}
	further := metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &hour}
	cut := errors.New("cut")
	page := func(c *fakeStream) {
		c.Helper()
		if err := c.stream.pageRead(nil); err != nil {
			c.Fatal(err)
		}
	}
	for claim, test := range map[string]struct {
		before    func(*fakeStream)
		continues bool
	}{
		"a watch that ended at its timeout is followed by another": {func(c *fakeStream) { c.mustOpen(list); c.passTime(time.Hour) }, true},
		"a watch that ended a second after its timeout is":         {func(c *fakeStream) { c.mustOpen(list); c.passTime(time.Hour + time.Second) }, true},
		"a watch that followed another is": {
			func(c *fakeStream) {
				c.mustOpen(list)
				c.passTime(time.Hour)
				c.mustOpen(further)
				c.passTime(time.Hour)
			}, true},
		"one that broke off is not":                             {func(c *fakeStream) { c.mustOpen(list); c.passTime(time.Hour - time.Second) }, false},
		"one whose process was stopped past its timeout is not": {func(c *fakeStream) { c.mustOpen(list); c.passTime(time.Hour + time.Minute) }, false},
		"one whose process was stopped while it opened the watch is not": {
			func(c *fakeStream) {
				if err := c.open(list, nil, time.Hour+time.Minute); err != nil {
					c.Fatal(err)
				}
			}, false},
		"one that could not be opened is not": {
			func(c *fakeStream) {
				c.mustOpen(list)
				c.passTime(time.Hour)
				if err := c.open(further, cut, 0); !errors.Is(err, cut) {
					c.Fatalf("error %v, want %v", err, cut)
				}
				c.passTime(time.Hour)
			}, false},
		"a list by pages is followed by a watch": {
			func(c *fakeStream) {
				c.stream.beginList()
				page(c)
				c.passTime(20 * time.Second)
				page(c)
				c.stream.endList(nil)
			}, true},
		"a list by pages is not when the process was stopped after it": {
			func(c *fakeStream) { c.stream.beginList(); page(c); c.stream.endList(nil); c.passTime(time.Minute) }, false},
		"a list that failed is not":       {func(c *fakeStream) { c.stream.beginList(); c.stream.endList(cut) }, false},
		"no watch continues from nothing": {func(*fakeStream) {}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			c := &fakeStream{T: t, now: time.Unix(0, 0)}
			c.stream = &Continuity{Now: func() time.Time { return c.now }}
			test.before(c)
			before := len(c.requests)
			err := c.open(further, nil, 0)
			if continued := len(c.requests) > before; continued != test.continues || !test.continues && !apierrors.IsResourceExpired(err) {
				t.Errorf("watch() continued: %t, want %t; error %v", continued, test.continues, err)
			}
			for _, options := range c.requests {
				if StartsWithList(options) && options.ResourceVersion != "" {
					t.Errorf("watch() asked for a list of version %q, want the newest", options.ResourceVersion)
				}
			}
		})
	}
}

// Pages that were read before and after a long pause may be of two histories with the same version.
func TestListWithDistantPagesFails(t *testing.T) {
	now, cut := time.Unix(0, 0), errors.New("cut")
	c := &Continuity{Now: func() time.Time { return now }}
	c.beginList()
	for _, step := range []struct {
		after         time.Duration
		failure, want error
	}{{time.Second, nil, nil}, {time.Second, cut, cut}, {time.Second, nil, nil}, {time.Hour, nil, errPaused}, {0, nil, errPaused}} {
		now = now.Add(step.after)
		if err := c.pageRead(step.failure); !errors.Is(err, step.want) {
			t.Errorf("pageRead() after %s returned %v, want %v", step.after, err, step.want)
		}
	}
	c.beginList()
	if err := c.pageRead(nil); err != nil {
		t.Errorf("pageRead() of the next list returned %v, want none", err)
	}
}

// An API server whose etcd was restored to before the label continues a watch, and never shows that the label is missing.
func TestNamespacesAreListedAgainAfterABrokenWatch(t *testing.T) {
	source := Source(
		func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.PartialObjectMetadataList{}, nil
		},
		func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	)
	timeout := int64(300)
	open := func() error {
		_, err := source.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &timeout})
		return err
	}
	if _, err := source.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("watch after a list: %v, want none", err)
	}
	if err := open(); !apierrors.IsResourceExpired(err) {
		t.Errorf("watch after one that broke off: %v, want that its version has expired", err)
	}
}
