// Package stream keeps the lists and watches of a cell sound: a watch continues only in the history of its list, and a cell cannot send
// more objects than fit into memory. It knows nothing of what the objects mean.
package stream

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// Continuity lets a stream continue from its last version only if its cell certainly has the same history.
//
// An API server whose etcd was restored accepts a watch from a version that it has not reached yet, or has reached a second time, and
// shows what happens after it. The aggregator would count pods that the restore has undone for ever. No API server reports that its
// history changed, but its history cannot change without ending its watches. So another watch follows only a watch that ended at its
// requested timeout. After a watch that broke off, or could not be opened, all objects are listed again. This applies to pods, and to all
// other objects of a cell that a count depends on.
//
// A process that was paused past the timeout of its watch cannot distinguish that end from an earlier one, and the cell may have been
// restored since. So a watch follows soon after the planned end, or not at all.
type Continuity struct {
	Now func() time.Time
	// from and until bound when the next watch may continue from where the last watch ended or a list was read; zero means never.
	from, until time.Time
	// pageReadAt is when the last page of a list was read, or the list began.
	pageReadAt time.Time
}

const (
	// ContinueWithin is how long after the planned end of a watch, or after a list, the next watch may begin. A reflector opens it at
	// once. A few seconds allow for a slow response, and are too short to stop the API servers of a cell, restore its etcd and start them
	// again.
	ContinueWithin = 5 * time.Second
	// pageWithin is how long a page of a list may take. A page is one request for at most PageSize objects, and no etcd can be restored in
	// that time either.
	pageWithin = 30 * time.Second
)

// errPaused is the error of a list whose pages may be of different histories.
var errPaused = errors.New("the last page was read too long ago, and the cell may have been restored since; all objects are listed again")

// beginList must be called before the first page of a list is read.
func (c *Continuity) beginList() { c.from, c.until, c.pageReadAt = time.Time{}, time.Time{}, c.Now() }

// pageRead must be called after each page of a list is read, with its error. It returns the error with which the list fails, if any.
func (c *Continuity) pageRead(err error) error {
	now := c.Now()
	if isLater(now, c.pageReadAt.Add(pageWithin)) {
		return errPaused
	}
	c.pageReadAt = now
	return err
}

// endList must be called after a list, with its error. A watch from the version of the list has the same history.
func (c *Continuity) endList(err error) {
	if err == nil {
		c.from, c.until = c.pageReadAt, c.pageReadAt.Add(ContinueWithin)
	}
}

// Watch opens a watch, or returns that its version has expired, upon which a reflector lists again.
func (c *Continuity) Watch(
	ctx context.Context, options metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (watch.Interface, error) {
	now, from, until := c.Now(), c.from, c.until
	c.from, c.until = time.Time{}, time.Time{}
	switch {
	case StartsWithList(options):
		// A reflector accepts any old state here, or one that is not older than its last version. A list from a lagging cache would count
		// pods whose removal a former leader has settled, and the cell's version may have gone backwards.
		options.ResourceVersion = ""
	case from.IsZero() || now.Before(from) || isLater(now, until):
		return nil, apierrors.NewResourceExpired("the last watch broke off, or ended too long ago: all objects are listed again")
	}
	w, err := open(ctx, options)
	if err == nil && options.TimeoutSeconds != nil {
		// Measured from the request, not from the response: the process may have been paused between them.
		c.from = now.Add(time.Duration(*options.TimeoutSeconds) * time.Second)
		c.until = c.from.Add(ContinueWithin)
	}
	return w, err
}

// isLater reports whether time a is later than b by either clock: the monotonic clock stops while the machine is suspended.
func isLater(a, b time.Time) bool { return a.After(b) || a.Round(0).After(b.Round(0)) }

// StartsWithList reports whether a watch begins with all existing objects.
func StartsWithList(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}

// Source returns a source that lists all objects again after a watch that broke off, as Snapshot.Stream does: an API server whose etcd was restored
// continues the watch, and never shows that the restore has undone the label of a namespace.
func Source(
	list func(context.Context, metav1.ListOptions) (runtime.Object, error), open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *toolscache.ListWatch {
	history := &Continuity{Now: time.Now}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.ResourceVersion, options.ResourceVersionMatch = "", "" // always the newest (rule 5)
			history.beginList()
			listed, err := list(ctx, options)
			err = history.pageRead(err)
			history.endList(err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return history.Watch(ctx, options, open)
		},
	}
}
