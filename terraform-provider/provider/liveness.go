package provider

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// aliveReason returns why a cell is not dead. The result is empty if the cell is dead or its Cell does not exist. The clock of
// another machine wrote the heartbeat, so the AggregationFresh condition takes precedence: the topology controller sets it
// without comparing clocks. That controller also checks again itself.
func (r *removeCell) aliveReason(ctx context.Context, name string, now time.Time) (why string, err error) {
	object, err := r.cluster.get(ctx, r.cells, "", name)
	if apierrors.IsNotFound(err) && !isKindMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	cell := &v1alpha1.Cell{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cell); err != nil {
		return "", err
	}
	return heartbeatReason(cell, now), nil
}

func heartbeatReason(cell *v1alpha1.Cell, now time.Time) string {
	reporter, after := cell.Status.Aggregator, cell.Spec.StaleAfterOrDefault()
	if reporter.LastHeartbeat == nil || meta.IsStatusConditionFalse(cell.Status.Conditions, v1alpha1.ConditionAggregationFresh) {
		return ""
	}
	silent := now.Sub(reporter.LastHeartbeat.Time)
	if silent >= after {
		return ""
	}
	return fmt.Sprintf("Its aggregator %s reported %s ago, and the cell counts as dead after %s (stale_after). Stop the aggregator first and wait for that; "+
		"or delete the Cell, which drains it, to take the cell out of service.", reporter.Holder, silent.Round(time.Second), after)
}

// entryOf returns the clearable data that a protector has of a cell, or nil if it has none.
func entryOf(object *unstructured.Unstructured, cell string) (*v1alpha1.PodProtectorCell, error) {
	p := &v1alpha1.PodProtector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		return nil, err
	}
	entry := quota.CellOf(p, cell)
	if entry != nil && entry.Discount == v1alpha1.DiscountCleared {
		return nil, nil
	}
	return entry, nil
}
