package access

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// mostNamespaces is how many namespaces a visitor is asked about who may not see all of them.
const mostNamespaces = 300

// Sight is which namespaces somebody sees.
type Sight struct {
	// All tells that it is all of them.
	All bool
	// Unasked is how many namespaces were not asked about, since there are too many.
	Unasked int

	some map[string]bool
}

// Sees tells whether a namespace is among them.
func (s Sight) Sees(namespace string) bool { return s.All || s.some[namespace] }

// Sight returns in which of some namespaces a visitor may list a resource. An error is that the apiserver gives no answer.
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

// May tells whether the visitor has a right. An error is that the apiserver gives no answer.
func (v *Visitor) May(ctx context.Context, right Right) (bool, error) {
	return v.reviews.May(ctx, v.Who, right)
}
