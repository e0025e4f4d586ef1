package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// cellRemoval removes a dead cell from protectors.
type cellRemoval struct {
	*removeCell
	cell     string
	timeout  time.Duration
	progress progress
}

// stage is the progress of one protector.
type stage int

const (
	// stagePending means that no annotation is set yet: another cell is being cleared from the protector first.
	stagePending stage = iota
	// stageAnnotated means that the annotation is set, and the topology controller has not removed it yet.
	stageAnnotated
	// stageRemoved means that the protector has no data of the cell any more.
	stageRemoved
	// stageDenied means that the topology controller removed the annotation, but the protector still has data of the cell.
	stageDenied
)

// run annotates all protectors and polls them until each is cleared or refused.
func (c *cellRemoval) run(ctx context.Context, all []*desired, d *diag.Diagnostics) {
	stages, of := make([]stage, len(all)), ""
	told, done := false, 0
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		count := map[stage]int{}
		for i, w := range all {
			if stages[i] == stagePending || stages[i] == stageAnnotated {
				var err error
				if stages[i], err = c.step(ctx, w, stages[i]); err != nil {
					of = w.String()
					return false, err
				}
			}
			count[stages[i]]++
		}
		if !told {
			told = true
			c.progress("Annotated %s to remove the cell %s.", formatProtectors(len(all)), c.cell)
		}
		if count[stageRemoved] > done {
			done = count[stageRemoved]
			c.progress("The cell %s is removed from %d of %s.", c.cell, done, formatProtectors(len(all)))
		}
		return count[stagePending]+count[stageAnnotated] == 0, nil
	})
	if err != nil && !wait.Interrupted(err) {
		c.protectors.explain(d, "annotated to remove a cell", of, err)
		return
	}
	c.addErrors(all, stages, d)
}

// addErrors adds errors for the protectors that still have data of the cell.
func (c *cellRemoval) addErrors(all []*desired, stages []stage, d *diag.Diagnostics) {
	var held, kept []string
	for i, w := range all {
		switch stages[i] {
		case stageRemoved:
		case stageDenied:
			kept = append(kept, w.String())
		default:
			held = append(held, w.String())
		}
	}
	if len(kept) > 0 {
		d.AddError("The cell was not removed", fmt.Sprintf("The topology controller refused to remove the cell %s from %s, because the cell's aggregator reports: "+
			"see the events of the protector. Stop the aggregator first; or delete the Cell, which drains it.", c.cell, joinNames(kept)))
	}
	if len(held) > 0 {
		d.AddError("The cell was not removed in time", fmt.Sprintf("The cell %s was not removed: the topology controller did not remove the annotation %s from %s within %s: "+
			"check that breakwater topology runs in the core. The annotation stays and takes effect when it runs; to withdraw it, run "+
			"kubectl annotate podprotectors %s-.", c.cell, v1alpha1.AnnotationRemoveCell, joinNames(held), c.timeout, v1alpha1.AnnotationRemoveCell))
	}
}

// step reads a protector and sets the annotation if no earlier step did.
func (c *cellRemoval) step(ctx context.Context, w *desired, was stage) (stage, error) {
	protectors := c.cluster.resourceClient(c.protectors, w.namespace)
	live, err := protectors.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return stageAfterError(was, err)
	}
	entry, err := entryOf(live, c.cell)
	if err != nil {
		return was, err
	}
	switch cell := live.GetAnnotations()[v1alpha1.AnnotationRemoveCell]; {
	case cell == c.cell:
		return stageAnnotated, nil
	case entry == nil:
		return stageRemoved, nil
	case cell != "":
		return stagePending, nil
	case was == stageAnnotated:
		return stageDenied, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "annotations": map[string]any{v1alpha1.AnnotationRemoveCell: c.cell},
	}})
	if err != nil {
		return was, err
	}
	if _, err = protectors.Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.cluster.manager + "-actions"}); err != nil {
		return stageAfterError(was, err)
	}
	return stageAnnotated, nil
}

// stageAfterError returns the stage of a protector after a request failed. A deleted protector has no data of any cell.
func stageAfterError(was stage, err error) (stage, error) {
	switch {
	case apierrors.IsNotFound(err) && !transport.IsKindMissing(err):
		return stageRemoved, nil
	case apierrors.IsConflict(err), transport.IsTransient(err):
		return was, nil
	}
	return was, err
}

func formatProtectors(protectors int) string {
	if protectors == 1 {
		return "1 protector"
	}
	return fmt.Sprintf("%d protectors", protectors)
}

// joinNames joins the first names of a list and counts the rest.
func joinNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// aliveReason returns why a cell is not dead. The result is empty if the cell is dead or its Cell does not exist. The clock of
// another machine wrote the heartbeat, so the AggregationFresh condition takes precedence: the topology controller sets it
// without comparing clocks. That controller also checks again itself.
func (r *removeCell) aliveReason(ctx context.Context, name string, now time.Time) (why string, err error) {
	object, err := r.cluster.get(ctx, r.cells, "", name)
	if apierrors.IsNotFound(err) && !transport.IsKindMissing(err) {
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
