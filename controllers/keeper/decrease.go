package keeper

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// decreaseOf returns the conditions that record a pending decrease of a protector (rule 13), or none if no decrease is pending. A protector
// that waits for its status carries them in its metadata. A record that cannot be parsed counts as none.
func decreaseOf(p *v1alpha1.PodProtector) (pending []metav1.Condition) {
	all := p.Status.Conditions
	if quota.IsRestorePending(p) {
		all = nil
		if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationRestoredDecrease]), &all); err != nil {
			return nil
		}
	}
	if !meta.IsStatusConditionTrue(all, v1alpha1.ConditionDecreasePending) {
		return nil
	}
	for _, kind := range []string{v1alpha1.ConditionDecreasePending, v1alpha1.ConditionTargetResolved} {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			pending = append(pending, *c)
		}
	}
	return pending
}

// carryDecrease records the pending decrease of a lost protector in the metadata of the recreated protector. Another write restores the
// status. If the process ends before that write, it loses its memory of the lost protector.
func carryDecrease(recreated, last *v1alpha1.PodProtector) error {
	delete(recreated.Annotations, v1alpha1.AnnotationRestoredDecrease)
	pending := decreaseOf(last)
	if len(pending) == 0 {
		return nil
	}
	record, err := json.Marshal(pending)
	if err != nil {
		return fmt.Errorf("record the pending decrease: %w", err)
	}
	recreated.Annotations[v1alpha1.AnnotationRestoredDecrease] = string(record)
	return nil
}

// restoreDecrease gives a protector the conditions that record the pending release of the one that vanished. Without them no confirmation
// would find the release, and the generator would treat the workload as vanished. The generator may have done that already.
func restoreDecrease(p *v1alpha1.PodProtector, pending []metav1.Condition) {
	for _, c := range pending {
		meta.RemoveStatusCondition(&p.Status.Conditions, c.Type) // so that the restored condition keeps its transition time
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
}

// carriesDecrease reports whether a protector has its status, but still carries the record in its metadata.
func carriesDecrease(p *v1alpha1.PodProtector) bool {
	_, carries := p.Annotations[v1alpha1.AnnotationRestoredDecrease]
	return carries && !quota.IsRestorePending(p)
}

// dropCarriedDecrease removes the record. Otherwise a restore from a backup without status would bring it back. The patch fails if the protector
// has changed since it was read: a restore of the core may have reverted its status.
func (r *Reconciler) dropCarriedDecrease(ctx context.Context, cached *v1alpha1.PodProtector) error {
	p := &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if p.UID != cached.UID || !carriesDecrease(p) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.UID, "resourceVersion": p.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationRestoredDecrease: nil},
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name))
	if err != nil && !isOutdated(err) {
		return fmt.Errorf("remove the record of the pending decrease: %w", err)
	}
	return nil
}
