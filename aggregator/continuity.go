package aggregator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// continuity lets a stream go on from the version that it has come to only if its cell has certainly gone on as well.
//
// An apiserver whose etcd was restored takes a watch from a version that is yet to come, or has come once more, and
// shows what happens after it. Pods that the restore has undone would be counted for ever. No apiserver says that it
// has another past, but it cannot have got one without ending its watches. So only a watch that ended when it had
// asked to end is followed by another; after one that broke off, or could not be opened, all pods are listed anew.
type continuity struct {
	now func() time.Time
	// sure is since when the next watch may go on where the last one ended, or a list was read; zero is never.
	sure time.Time
}

// listed notes a list: a watch from its version has the same past.
func (c *continuity) listed(err error) {
	c.sure = time.Time{}
	if err == nil {
		c.sure = c.now()
	}
}

// watch opens a watch, or says that its version has expired, upon which a reflector lists anew.
func (c *continuity) watch(
	ctx context.Context, options metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (watch.Interface, error) {
	now, sure := c.now(), c.sure
	c.sure = time.Time{}
	switch {
	case lists(options):
		// Where a reflector is content with any old state, or with one not older than what it knows: a list from a cache
		// that lags would count pods whose removal a former leader has settled, and the cell may have gone back.
		options.ResourceVersion = ""
	case sure.IsZero() || now.Before(sure):
		return nil, apierrors.NewResourceExpired("the last watch of the cell's pods broke off: they are listed anew")
	}
	w, err := open(ctx, options)
	if err == nil && options.TimeoutSeconds != nil {
		c.sure = now.Add(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return w, err
}

// lists tells whether a watch begins with all objects that there are.
func lists(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}
