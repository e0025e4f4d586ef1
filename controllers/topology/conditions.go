package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

// freshCondition returns the condition on whether the aggregator reports. isKnown is false until the controller has determined that.
func freshCondition(cell *v1alpha1.Cell, current report) (fresh metav1.Condition, isKnown bool) {
	fresh = metav1.Condition{Type: v1alpha1.ConditionAggregationFresh}
	switch current.state {
	case heartbeat.Alive:
		fresh.Status, fresh.Reason, fresh.Message = metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen, "The aggregator of the cell reports."
		if current.sharded {
			fresh.Message = "The cell is sharded, and a shard reports on each slot."
		}
	case heartbeat.Silent:
		fresh.Status, fresh.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat
		counts := "its pods count as in the last report"
		if cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount {
			counts = "its pods do not count for removals in other cells"
		}
		fresh.Message = fmt.Sprintf("No aggregator of the cell has reported for %s: %s.", cell.Spec.StaleAfterOrDefault(), counts)
		if current.sharded {
			fresh.Message = clusters.Truncate(fmt.Sprintf("%s: in their namespaces, %s.", describeSilentSlots(cell, current.silent), counts), 1000)
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

// overlappingCondition returns the condition on whether other Cells of the cluster can have pods of this one. isNeeded is false if none has or had.
func (r *Reconciler) overlappingCondition(ctx context.Context, cell *v1alpha1.Cell) (overlapping metav1.Condition, isNeeded bool, err error) {
	overlapping = metav1.Condition{
		Type: v1alpha1.ConditionOverlapping, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisjoint,
		Message: "No other Cell of the cluster can contain the same pods.",
	}
	isNeeded = meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping) != nil
	cluster, own := r.clusterOf(cell), scopeOf(cell)
	cells := &v1alpha1.CellList{}
	if err := r.Client.List(ctx, cells); err != nil {
		return overlapping, isNeeded, fmt.Errorf("list Cells: %w", err)
	}
	var conflicting []string
	for i := range cells.Items {
		other := &cells.Items[i]
		if other.Name != cell.Name && cluster != "" && r.clusterOf(other) == cluster && scopeOf(other).Overlaps(own) {
			conflicting = append(conflicting, other.Name)
		}
	}
	if len(conflicting) > 0 {
		isNeeded, overlapping.Status, overlapping.Reason = true, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap
		overlapping.Message = clusters.Truncate(fmt.Sprintf("Other Cells of the cluster can contain the same pods, which then count in each of them: removals can "+
			"break floors. Delete all but one of these Cells, or recreate them with disjoint namespaces or podSelectors: %s.", strings.Join(conflicting, ", ")), 1000)
	}
	return overlapping, isNeeded, nil
}

// scopeOf returns which pods a Cell has. A malformed Cell, which the CRD rejects, has none.
func scopeOf(cell *v1alpha1.Cell) scope.Scope {
	pods, _ := scope.Of(&cell.Spec)
	return pods
}

// applyConditions writes the conditions if they differ, and emits an event for each condition that changed.
func (r *Reconciler) applyConditions(ctx context.Context, cell *v1alpha1.Cell, conditions []metav1.Condition) error {
	if hasConditions(cell, conditions) {
		return nil
	}
	live := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cell), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.UID != cell.UID || hasConditions(live, conditions) {
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
	object := clusters.NewApply(cellKind(), live, live.UID)
	object.Object["status"] = map[string]any{"conditions": fields}
	apply := client.ApplyConfigurationFromUnstructured(object)
	if err := r.Client.Status().Apply(ctx, apply, client.FieldOwner(Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the conditions: %w", err)
	}
	clusters.ConditionRecorder{Events: r.Events, Action: "Inspect", IsGood: isHealthy}.RecordChanges(ctx, before, before.Status.Conditions, conditions)
	return nil
}

// hasConditions reports whether a Cell already has the conditions. The text of an error can differ each time, so it counts only with a new reason.
func hasConditions(cell *v1alpha1.Cell, conditions []metav1.Condition) bool {
	errorReasons := []string{v1alpha1.ReasonUnreachable, v1alpha1.ReasonConfigurationUnread, v1alpha1.ReasonEndpointsUnread}
	for _, want := range conditions {
		have := meta.FindStatusCondition(cell.Status.Conditions, want.Type)
		if have == nil || have.Status != want.Status || have.Reason != want.Reason {
			return false
		}
		if have.Message != want.Message && !slices.Contains(errorReasons, want.Reason) {
			return false
		}
	}
	return true
}

// isHealthy reports whether a condition is no reason for a warning. An unknown condition is no reason for one.
func isHealthy(c metav1.Condition) bool {
	good := metav1.ConditionTrue
	if c.Type == v1alpha1.ConditionOverlapping {
		good = metav1.ConditionFalse
	}
	return c.Status == good || c.Status == metav1.ConditionUnknown
}
