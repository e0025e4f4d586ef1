package aggregator

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// continuity lets a stream go on from the version that it has come to only if its cell has certainly gone on as well.
//
// An apiserver whose etcd was restored takes a watch from a version that is yet to come, or has come once more, and
// shows what happens after it. Pods that the restore has undone would be counted for ever. No apiserver says that it
// has another past, but it cannot have got one without ending its watches. So only a watch that ended when it had
// asked to end is followed by another; after one that broke off, or could not be opened, all objects are listed again. That holds of pods,
// and of all else in a cell that a count depends on.
//
// A process that was stopped past the timeout of its watch cannot distinguish that end from an earlier one, and the cell may have been
// restored since. So a watch follows soon after the planned end, or not at all.
type continuity struct {
	now func() time.Time
	// from and until bound when the next watch may continue where the last one ended, or a list was read; zero is never.
	from, until time.Time
	// paged is when the last page of a list was read, or the list began.
	paged time.Time
}

// listPods lists pods, or a page of them.
type listPods = func(context.Context, metav1.ListOptions) (*corev1.PodList, error)

const (
	// continueWithin is how long after the planned end of a watch, or after a list, the next watch may begin. A reflector opens it at once:
	// a few seconds allow for a slow answer, and do not suffice to stop the API servers of a cell, restore its etcd and start them again.
	continueWithin = 5 * time.Second
	// pageWithin is how long a page of a list may take. It is a request of at most listPage pods, and no etcd is restored in that time either.
	pageWithin = 30 * time.Second
)

// errPaused is why a list fails whose pages may be of different histories.
var errPaused = errors.New("the last page was read too long ago, and the cell may have been restored since; all objects are listed again")

// listing must be called before the first page of a list is read.
func (c *continuity) listing() { c.from, c.until, c.paged = time.Time{}, time.Time{}, c.now() }

// page must be called after each page of a list is read, and returns why the list fails, if it does.
func (c *continuity) page(err error) error {
	now := c.now()
	if isLater(now, c.paged.Add(pageWithin)) {
		return errPaused
	}
	c.paged = now
	return err
}

// pages lists by pages, until they are too far apart.
func (c *continuity) pages(list listPods) listPods {
	return func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		read, err := list(ctx, options)
		if err := c.page(err); err != nil {
			return nil, err
		}
		return read, nil
	}
}

// listed must be called after a list. A watch from its version has the same past.
func (c *continuity) listed(err error) {
	if err == nil {
		c.from, c.until = c.paged, c.paged.Add(continueWithin)
	}
}

// watch opens a watch, or says that its version has expired, upon which a reflector lists again.
func (c *continuity) watch(
	ctx context.Context, options metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (watch.Interface, error) {
	now, from, until := c.now(), c.from, c.until
	c.from, c.until = time.Time{}, time.Time{}
	switch {
	case lists(options):
		// Where a reflector is content with any old state, or with one not older than what it knows: a list from a cache
		// that lags would count pods whose removal a former leader has settled, and the cell may have gone back.
		options.ResourceVersion = ""
	case from.IsZero() || now.Before(from) || isLater(now, until):
		return nil, apierrors.NewResourceExpired("the last watch broke off, or ended too long ago: all objects are listed again")
	}
	w, err := open(ctx, options)
	if err == nil && options.TimeoutSeconds != nil {
		// From when it was asked for, not from the answer: the process may have been stopped between them.
		c.from = now.Add(time.Duration(*options.TimeoutSeconds) * time.Second)
		c.until = c.from.Add(continueWithin)
	}
	return w, err
}

// isLater reports whether a time is later than another by any clock: a monotonic clock stands still while its machine is suspended.
func isLater(a, b time.Time) bool { return a.After(b) || a.Round(0).After(b.Round(0)) }

// lists tells whether a watch begins with all objects that there are.
func lists(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}
