package access

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxNamespaces is the maximum number of namespaces to review for a visitor who may not list all of them.
const maxNamespaces = 300

// VisibleNamespaces is the set of namespaces that a user may see.
type VisibleNamespaces struct {
	// All reports whether the user may see all namespaces.
	All bool
	// Unreviewed is the number of namespaces that were not reviewed because there are too many.
	Unreviewed int

	names map[string]bool
}

// Has reports whether the user may see a namespace.
func (s VisibleNamespaces) Has(namespace string) bool { return s.All || s.names[namespace] }

// VisibleNamespaces returns the namespaces of a core in which a visitor may list a resource. The error is a failure of the API server to answer.
func (v *Visitor) VisibleNamespaces(ctx context.Context, core, group, resource string, namespaces []string) (VisibleNamespaces, error) {
	if !v.Knows(core) {
		return VisibleNamespaces{}, nil
	}
	all, err := v.IsAllowed(ctx, core, Permission{Group: group, Resource: resource})
	if err != nil || all {
		return VisibleNamespaces{All: all}, err
	}
	sight := VisibleNamespaces{names: map[string]bool{}, Unreviewed: max(len(namespaces)-maxNamespaces, 0)}
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(maxReviews / 2)
	for _, namespace := range namespaces[:len(namespaces)-sight.Unreviewed] {
		asking.Go(func() error {
			may, err := v.IsAllowed(ctx, core, Permission{Group: group, Resource: resource, Namespace: namespace})
			mu.Lock()
			defer mu.Unlock()
			sight.names[namespace] = may
			return err
		})
	}
	return sight, asking.Wait()
}

// IsAllowed reports whether the visitor has a permission in a core. The error is a failure of the API server to answer.
func (v *Visitor) IsAllowed(ctx context.Context, core string, right Permission) (bool, error) {
	who, known := v.identities[core]
	at := slices.IndexFunc(v.gate.cores, func(c Core) bool { return c.Name == core })
	if !known || at < 0 {
		return false, nil
	}
	return v.gate.cores[at].Reviews.IsAllowed(ctx, who, right)
}
