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

// first is what a term knows of pods that a protector has not been counted by yet, or not with its spec.
//
// Pods that a protector does not cover go without any reservation. A snapshot that lags shows them all the same, and to
// count them would be to find budget that is not there. So a first count goes by a live list besides, which was read after
// the protector was seen: what is not alive in it is not counted before the snapshot has come as far.
type first struct {
	uid  types.UID
	spec string
	// selector is that of the target, where the spec names one.
	selector string
	// inTransition reports that it is for counts that an earlier spec restricts. When they no longer are, pods that went without a
	// reservation must be looked for again.
	inTransition bool
	live         liveRead
}

func (f *first) is(p *v1alpha1.PodProtector, target *v1alpha1.Target, inTransition bool) bool {
	return f != nil && f.uid == p.UID && f.inTransition == inTransition && f.spec == quota.CountedSpec(&p.Spec) && f.selector == selectorOf(target)
}

// selectorOf is the text of a target's selector; none chooses no pod.
func selectorOf(target *v1alpha1.Target) string {
	if target == nil {
		return ""
	}
	return target.Selector
}

// expectFirsts notes the protectors of some namespaces that are known before the pods are listed: that list is late enough for
// them.
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

// isCounted tells whether the cell's pods were counted with the spec of a protector, and its target.
func (t *term) isCounted(p *v1alpha1.PodProtector, target *v1alpha1.Target) bool {
	cell := quota.CellOf(p, t.options.Cell)
	return cell != nil && !cell.Aggregation.Void && cell.Aggregation.CountedSpec == quota.CountedSpec(&p.Spec) &&
		selectorOf(cell.Aggregation.Target) == selectorOf(target)
}

// mustCount tells whether a protector has to be counted anew, as far as its spec tells.
func (t *term) mustCount(p *v1alpha1.PodProtector) bool {
	cell := quota.CellOf(p, t.options.Cell)
	return cell == nil || !t.isCounted(p, cell.Aggregation.Target)
}

// firstOf returns the live list that a protector's count goes by; nil when the snapshot is enough. It is not when the stored counts are of a
// transition and these are not, or the other way round.
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
