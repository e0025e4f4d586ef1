package aggregator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// first is a live list for pods that a protector has not been counted by yet, or not with its current spec.
//
// Pods that a protector does not cover are removed without a reservation. A lagging snapshot still shows them, and counting them would
// create budget that does not exist. So a first count also uses a live list, which was read after the protector was seen. A pod that is
// not alive in it is not counted until the snapshot has reached the version of the list.
type first struct {
	uid  types.UID
	spec string
	// selector is that of the target, if the spec names one.
	selector string
	// inTransition reports that it is for counts that an earlier spec restricts. When that restriction ends, the aggregator must look
	// again for pods that were removed without a reservation.
	inTransition bool
	live         liveRead
}

func (f *first) is(p *v1alpha1.PodProtector, target *v1alpha1.Target, inTransition bool) bool {
	return f != nil && f.uid == p.UID && f.inTransition == inTransition && f.spec == quota.CountedSpec(&p.Spec) && f.selector == selectorOf(target)
}

// selectorOf returns the selector of a target as text; no target selects no pod.
func selectorOf(target *v1alpha1.Target) string {
	if target == nil {
		return ""
	}
	return target.Selector
}

// expectFirsts records the protectors of some namespaces that are known before the pods are listed: that list is recent enough for them.
func (t *term) expectFirsts(in func(namespace string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, obj := range t.informer.GetStore().List() {
		p, ok := obj.(*v1alpha1.PodProtector)
		if ok && in(p.Namespace) && !clusters.IsLeftOut(p) && p.Spec.TargetRef == nil && !t.isCounted(p, nil) {
			t.firsts[keyOf(p)] = &first{uid: p.UID, spec: quota.CountedSpec(&p.Spec)}
		}
	}
}

// isCounted reports whether the cell's pods were counted with the spec and the target of a protector.
func (t *term) isCounted(p *v1alpha1.PodProtector, target *v1alpha1.Target) bool {
	cell := quota.CellOf(p, t.options.Cell)
	return cell != nil && !cell.Aggregation.Void && cell.Aggregation.CountedSpec == quota.CountedSpec(&p.Spec) &&
		selectorOf(cell.Aggregation.Target) == selectorOf(target)
}

// mustCount reports whether a protector has to be counted again, as far as its spec shows.
func (t *term) mustCount(p *v1alpha1.PodProtector) bool {
	cell := quota.CellOf(p, t.options.Cell)
	return cell == nil || !t.isCounted(p, cell.Aggregation.Target)
}

// firstOf returns the live list that a protector's count uses; nil if the snapshot is enough. The snapshot is not enough if the stored
// counts are of a transition and the new ones are not, or the reverse.
func (t *term) firstOf(ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target, inTransition bool) (*liveRead, error) {
	key := keyOf(p)
	t.mu.Lock()
	f, counted := t.firsts[key], t.isCounted(p, target) && quota.CellOf(p, t.options.Cell).Aggregation.InTransition == inTransition
	if f != nil && counted && (!f.is(p, target, inTransition) || t.snapshot.Reached(f.live.version)) {
		delete(t.firsts, key)
		f = nil
	}
	t.mu.Unlock()
	switch {
	case f.is(p, target, inTransition):
		return &f.live, nil
	case counted:
		return nil, nil
	}
	pods, _ := selectors.CountedOf(&p.Spec, target)
	if !pods.Possible() {
		return nil, nil
	}
	live, err := t.seeAlive(ctx, key.Namespace, pods.Key())
	if err != nil {
		return nil, fmt.Errorf("count for the first time: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.firsts[key] = &first{uid: p.UID, spec: quota.CountedSpec(&p.Spec), selector: selectorOf(target), inTransition: inTransition, live: live}
	return &live, nil
}
