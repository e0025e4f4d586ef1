package sharder

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// reader reads the objects, namespaces and shards of a ring, for one pass. It writes nothing and keeps nothing.
type reader struct {
	objects    objects
	namespaces namespaceLabeler
	registry   shardRegistry
	getRing    func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error)
	timing     timing
	// ring and shards are those of the beginning of the pass.
	ring   *v1alpha1.ClusterRing
	shards *ring.Shards
	// selector selects namespaces.
	selector labels.Selector
}

// forEachPage reads the objects of a resource, a page at a time. It fails with errOutdated when the ring or its shards have changed.
func (r *reader) forEachPage(ctx context.Context, res *resource, selector string, do func([]object) error) error {
	options := metav1.ListOptions{Limit: r.timing.page, LabelSelector: selector}
	for {
		if err := r.checkOutdated(ctx); err != nil {
			return err
		}
		list, err := r.objects.list(ctx, res, options)
		if options.Continue != "" && apierrors.IsResourceExpired(err) {
			// Changes since the list began do not matter, so the list can continue where it is.
			if options.Continue = continueToken(err); options.Continue == "" {
				return errExpired
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", res, err)
		}
		if err := do(list.Items); err != nil {
			return err
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// continueToken returns the token by which the API server continues an expired list with the current objects; empty if it does not offer one.
func continueToken(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// checkOutdated ends a pass whose ring or shards have changed.
func (r *reader) checkOutdated(ctx context.Context) error {
	now, err := r.getRing(ctx, r.ring.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return errOutdated
	case err != nil:
		return fmt.Errorf("get the ClusterRing: %w", err)
	case now.UID != r.ring.UID, now.Generation != r.ring.Generation, r.registry.Shards(now) != r.shards:
		return errOutdated
	default:
		return nil
	}
}

// countObjects returns how many objects of a resource exist, from the remaining item count of a list of one. The API server may omit that count.
func (r *reader) countObjects(ctx context.Context, res *resource) (int64, error) {
	list, err := r.objects.list(ctx, res, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		return 0, err
	case list.Continue == "":
		return int64(len(list.Items)), nil
	case list.RemainingItemCount == nil:
		return 0, errors.New("the API server does not return the remaining item count")
	default:
		return int64(len(list.Items)) + *list.RemainingItemCount, nil
	}
}

func (r *reader) newNamespaceFilter() *namespaceFilter {
	return &namespaceFilter{reader: r.namespaces, selector: r.selector, answers: map[filterKey]bool{}}
}

// shardStates returns the present states of the ring's shards.
func (r *reader) shardStates() map[string]v1alpha1.ShardState {
	states := map[string]v1alpha1.ShardState{}
	for _, member := range r.registry.Of(r.ring) {
		states[member.Name] = member.State
	}
	return states
}
