package topology

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

// freshness returns the condition on whether the aggregator reports. known is false until the controller has determined that.
func freshness(cell *v1alpha1.Cell, is report) (fresh metav1.Condition, known bool) {
	fresh = metav1.Condition{Type: v1alpha1.ConditionAggregationFresh}
	switch is.state {
	case heartbeat.Alive:
		fresh.Status, fresh.Reason, fresh.Message = metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen, "The aggregator of the cell reports."
		if is.shared {
			fresh.Message = "The cell is shared out, and somebody reports on each slot."
		}
	case heartbeat.Silent:
		fresh.Status, fresh.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat
		counts := "its pods count as they were counted last"
		if cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount {
			counts = "its pods count for nothing in other cells"
		}
		fresh.Message = fmt.Sprintf("No aggregator of the cell has reported for %s: %s.", cell.Spec.StaleAfterOrDefault(), counts)
		if is.shared {
			fresh.Message = clusters.Shorten(fmt.Sprintf("%s: of their namespaces, %s.", whoIsSilent(cell, is.silent), counts), 1000)
		}
	default:
		before := meta.FindStatusCondition(cell.Status.Conditions, fresh.Type)
		if before == nil {
			return fresh, false
		}
		fresh = *before // the condition of a former leader stays until this one has determined it
	}
	return fresh, true
}

// overlap returns the condition on whether other Cells of the cluster can have pods of this one. worth is false if none has or had.
func (r *Reconciler) overlap(ctx context.Context, cell *v1alpha1.Cell) (overlapping metav1.Condition, worth bool, err error) {
	overlapping = metav1.Condition{
		Type: v1alpha1.ConditionOverlapping, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisjoint,
		Message: "No other Cell of the cluster can have the same pods.",
	}
	worth = meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping) != nil
	cluster, own := r.clusterOf(cell), scopeOf(cell)
	cells := &v1alpha1.CellList{}
	if err := r.Client.List(ctx, cells); err != nil {
		return overlapping, worth, fmt.Errorf("list Cells: %w", err)
	}
	var rivals []string
	for i := range cells.Items {
		other := &cells.Items[i]
		if other.Name != cell.Name && cluster != "" && r.clusterOf(other) == cluster && scopeOf(other).Overlaps(own) {
			rivals = append(rivals, other.Name)
		}
	}
	if len(rivals) > 0 {
		worth, overlapping.Status, overlapping.Reason = true, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap
		overlapping.Message = clusters.Shorten(fmt.Sprintf("Pods of the cell can be those of other Cells of its cluster as well, and are counted in each: "+
			"floors can be broken. Delete all but one, or make them anew with other namespaces or podSelectors: %s.", strings.Join(rivals, ", ")), 1000)
	}
	return overlapping, worth, nil
}

// scopeOf returns which pods a Cell has. A malformed Cell, which the CRD rejects, has none.
func scopeOf(cell *v1alpha1.Cell) scope.Scope {
	pods, _ := scope.Of(&cell.Spec)
	return pods
}

// tell writes the conditions if they differ, and emits an event for each condition that changed.
func (r *Reconciler) tell(ctx context.Context, cell *v1alpha1.Cell, conditions []metav1.Condition) error {
	if stand(cell, conditions) {
		return nil
	}
	live := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cell), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.UID != cell.UID || stand(live, conditions) {
		return nil
	}
	before := live.DeepCopy()
	fields := make([]any, 0, len(conditions))
	for _, condition := range conditions {
		condition.ObservedGeneration = live.Generation
		meta.SetStatusCondition(&live.Status.Conditions, condition)
		field, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta.FindStatusCondition(live.Status.Conditions, condition.Type))
		if err != nil {
			return fmt.Errorf("condition %s: %w", condition.Type, err)
		}
		fields = append(fields, field)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": fields}}}
	object.SetGroupVersionKind(cellKind())
	object.SetName(live.Name)
	object.SetUID(live.UID)
	apply := client.ApplyConfigurationFromUnstructured(object)
	if err := r.Client.Status().Apply(ctx, apply, client.FieldOwner(Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the conditions: %w", err)
	}
	clusters.Teller{Events: r.Events, Action: "Inspect", IsGood: isGood}.Tell(ctx, before, before.Status.Conditions, conditions)
	return nil
}

// stand reports whether a Cell already has the conditions. The text of an error can differ each time, so it counts only with a new reason.
func stand(cell *v1alpha1.Cell, conditions []metav1.Condition) bool {
	for _, want := range conditions {
		have := meta.FindStatusCondition(cell.Status.Conditions, want.Type)
		if have == nil || have.Status != want.Status || have.Reason != want.Reason {
			return false
		}
		if have.Message != want.Message && want.Reason != v1alpha1.ReasonUnreachable && want.Reason != v1alpha1.ReasonConfigurationUnread {
			return false
		}
	}
	return true
}

// isGood reports whether a condition is no reason for a warning. An unknown condition is no reason for one.
func isGood(c metav1.Condition) bool {
	good := metav1.ConditionTrue
	if c.Type == v1alpha1.ConditionOverlapping {
		good = metav1.ConditionFalse
	}
	return c.Status == good || c.Status == metav1.ConditionUnknown
}
