package aggregator

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// continuityCase is a stream of pods with its own clock.
type continuityCase struct {
	*testing.T
	now    time.Time
	stream *continuity
	asked  []metav1.ListOptions
}

func (c *continuityCase) pass(d time.Duration) { c.now = c.now.Add(d) }

// open opens a watch, which the API server answers after a delay.
func (c *continuityCase) open(options metav1.ListOptions, failure error, delay time.Duration) error {
	_, err := c.stream.watch(c.Context(), options, func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		c.asked = append(c.asked, options)
		c.pass(delay)
		return watch.NewFake(), failure
	})
	return err
}

func (c *continuityCase) mustOpen(options metav1.ListOptions) {
	c.Helper()
	if err := c.open(options, nil, 0); err != nil {
		c.Fatal(err)
	}
}

func TestAStreamContinuesOnlyWhereItsCellCertainlyDid(t *testing.T) {
	yes, hour := true, int64(3600)
	list := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersion: "7", TimeoutSeconds: &hour}
	further := metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &hour}
	cut := errors.New("cut")
	page := func(c *continuityCase) {
		c.Helper()
		if err := c.stream.page(nil); err != nil {
			c.Fatal(err)
		}
	}
	for claim, test := range map[string]struct {
		before    func(*continuityCase)
		continues bool
	}{
		"a watch that ended at its timeout is followed by another": {func(c *continuityCase) { c.mustOpen(list); c.pass(time.Hour) }, true},
		"a watch that ended a second after its timeout is":         {func(c *continuityCase) { c.mustOpen(list); c.pass(time.Hour + time.Second) }, true},
		"a watch that followed another is": {
			func(c *continuityCase) { c.mustOpen(list); c.pass(time.Hour); c.mustOpen(further); c.pass(time.Hour) }, true},
		"one that broke off is not":                             {func(c *continuityCase) { c.mustOpen(list); c.pass(time.Hour - time.Second) }, false},
		"one whose process was stopped past its timeout is not": {func(c *continuityCase) { c.mustOpen(list); c.pass(time.Hour + time.Minute) }, false},
		"one whose process was stopped while it opened the watch is not": {
			func(c *continuityCase) {
				if err := c.open(list, nil, time.Hour+time.Minute); err != nil {
					c.Fatal(err)
				}
			}, false},
		"one that could not be opened is not": {
			func(c *continuityCase) {
				c.mustOpen(list)
				c.pass(time.Hour)
				if err := c.open(further, cut, 0); !errors.Is(err, cut) {
					c.Fatalf("error %v, want %v", err, cut)
				}
				c.pass(time.Hour)
			}, false},
		"a list by pages is followed by a watch": {
			func(c *continuityCase) {
				c.stream.listing()
				page(c)
				c.pass(20 * time.Second)
				page(c)
				c.stream.listed(nil)
			}, true},
		"a list by pages is not when the process was stopped after it": {
			func(c *continuityCase) { c.stream.listing(); page(c); c.stream.listed(nil); c.pass(time.Minute) }, false},
		"a list that failed is not":       {func(c *continuityCase) { c.stream.listing(); c.stream.listed(cut) }, false},
		"no watch continues from nothing": {func(*continuityCase) {}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			c := &continuityCase{T: t, now: time.Unix(0, 0)}
			c.stream = &continuity{now: func() time.Time { return c.now }}
			test.before(c)
			before := len(c.asked)
			err := c.open(further, nil, 0)
			if continued := len(c.asked) > before; continued != test.continues || !test.continues && !apierrors.IsResourceExpired(err) {
				t.Errorf("watch() continued: %t, want %t; error %v", continued, test.continues, err)
			}
			for _, options := range c.asked {
				if lists(options) && options.ResourceVersion != "" {
					t.Errorf("watch() asked for a list of version %q, want the newest", options.ResourceVersion)
				}
			}
		})
	}
}

// Pages that were read before and after a long pause may be of two histories with the same version.
func TestAListWhosePagesAreFarApartFails(t *testing.T) {
	now, cut := time.Unix(0, 0), errors.New("cut")
	c := &continuity{now: func() time.Time { return now }}
	c.listing()
	for _, step := range []struct {
		after         time.Duration
		failure, want error
	}{{time.Second, nil, nil}, {time.Second, cut, cut}, {time.Second, nil, nil}, {time.Hour, nil, errPaused}, {0, nil, errPaused}} {
		now = now.Add(step.after)
		if err := c.page(step.failure); !errors.Is(err, step.want) {
			t.Errorf("page() after %s returned %v, want %v", step.after, err, step.want)
		}
	}
	c.listing()
	if err := c.page(nil); err != nil {
		t.Errorf("page() of the next list returned %v, want none", err)
	}
}
