package reserve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Covering returns the protectors that cover a pod, each replaced by its share if that decides (rule S6), in their newest known state. belongs
// reports whether the pod belongs to the cell in any core cluster.
func (s *Cores) Covering(ctx context.Context, cell string, r removal.Request) (covering []removal.Charge, belongs bool, err error) {
	objects, belongs, err := s.Objects(ctx, cell, r)
	if err != nil {
		return nil, false, err
	}
	s.RoutePendingCharges(r.Namespace)
	covering, err = removal.WithShares(objects, cell)
	return covering, belongs, err
}

// Objects returns all protectors and shares that cover a pod, in their newest known state.
func (s *Cores) Objects(ctx context.Context, cell string, r removal.Request) (covering []removal.Charge, belongs bool, err error) {
	for _, core := range s.All {
		if !core.Synced.Load() {
			return nil, false, fmt.Errorf("the PodProtectors of core cluster %q have not been read yet", core.Name)
		}
		if !core.HasPod(cell, r.Namespace, r.Pod.Labels) {
			continue // the API server asks about another cell of the same cluster, too
		}
		belongs = true
		leavesCell := r.Relabeled != nil && !core.HasPod(cell, r.Namespace, r.Relabeled.Labels)
		for _, key := range core.States.Covering(cell, r.Namespace, r.Pod.Labels) {
			protector, lost, err := core.States.newest(ctx, key)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, false, fmt.Errorf("PodProtector %s of core cluster %q: %w", key, core.Name, err)
			}
			covering = append(covering, removal.Charge{Core: core.Name, Key: key, Protector: protector, Vanished: lost, LeavesCell: leavesCell})
		}
	}
	return covering, belongs, nil
}

// MayCover reports whether a protector covers a pod of a cell, as far as the webhook knows.
func (s *Cores) MayCover(cell string, r removal.Request) bool {
	for _, c := range s.All {
		if !c.Synced.Load() || c.HasPod(cell, r.Namespace, r.Pod.Labels) && len(c.States.Covering(cell, r.Namespace, r.Pod.Labels)) > 0 {
			return true
		}
	}
	return false
}

// NewToken returns a random token for an attempt. The probability that two of a million attempts for one pod share a
// token is 3e-8.
func NewToken() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // it must differ, not be secret
