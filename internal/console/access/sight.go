package access

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// mostNamespaces is the maximum number of namespaces to review for a visitor who may not list all of them.
const mostNamespaces = 300

// Sight is the set of namespaces that a user may see.
type Sight struct {
	// All reports whether the user may see all namespaces.
	All bool
	// Unasked is the number of namespaces that were not reviewed because there are too many.
	Unasked int

	some map[string]bool
}

// Sees reports whether the user may see a namespace.
func (s Sight) Sees(namespace string) bool { return s.All || s.some[namespace] }

// Sight returns the namespaces in which a visitor may list a resource. The error is a failure of the API server to answer.
func (v *Visitor) Sight(ctx context.Context, group, resource string, namespaces []string) (Sight, error) {
	all, err := v.May(ctx, Right{Group: group, Resource: resource})
	if err != nil || all {
		return Sight{All: all}, err
	}
	sight := Sight{some: map[string]bool{}, Unasked: max(len(namespaces)-mostNamespaces, 0)}
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(reviewsAtOnce / 2)
	for _, namespace := range namespaces[:len(namespaces)-sight.Unasked] {
		asking.Go(func() error {
			may, err := v.May(ctx, Right{Group: group, Resource: resource, Namespace: namespace})
			mu.Lock()
			defer mu.Unlock()
			sight.some[namespace] = may
			return err
		})
	}
	return sight, asking.Wait()
}

// May reports whether the visitor has a permission. The error is a failure of the API server to answer.
func (v *Visitor) May(ctx context.Context, right Right) (bool, error) {
	return v.reviews.May(ctx, v.Who, right)
}
