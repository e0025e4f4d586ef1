package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// clearance removes a dead cell from protectors.
type clearance struct {
	*removeCell
	cell  string
	limit time.Duration
	tell  teller
}

// stage is the progress of one protector.
type stage int

const (
	// pending means that no annotation is set yet: another cell is being cleared from the protector first.
	pending stage = iota
	// asked means that the annotation is set, and the topology controller has not removed it yet.
	asked
	// cleared means that the protector has no data of the cell any more.
	cleared
	// refused means that the topology controller removed the annotation, but the protector still has data of the cell.
	refused
)

// run annotates all protectors and polls them until each is cleared or refused.
func (c *clearance) run(ctx context.Context, all []*wanted, d *diag.Diagnostics) {
	stages, of := make([]stage, len(all)), ""
	told, done := false, 0
	err := wait.PollUntilContextCancel(ctx, pace, true, func(ctx context.Context) (bool, error) {
		count := map[stage]int{}
		for i, w := range all {
			if stages[i] == pending || stages[i] == asked {
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
			c.tell("Asked %s to forget the cell %s.", several(len(all)), c.cell)
		}
		if count[cleared] > done {
			done = count[cleared]
			c.tell("The cell %s is cleared out of %d of %s.", c.cell, done, several(len(all)))
		}
		return count[pending]+count[asked] == 0, nil
	})
	if err != nil && !wait.Interrupted(err) {
		c.protectors.explain(d, "asked to forget the cell "+c.cell, of, err)
		return
	}
	c.complain(all, stages, d)
}

// complain adds errors for the protectors that still have data of the cell.
func (c *clearance) complain(all []*wanted, stages []stage, d *diag.Diagnostics) {
	var held, kept []string
	for i, w := range all {
		switch stages[i] {
		case cleared:
		case refused:
			kept = append(kept, w.String())
		default:
			held = append(held, w.String())
		}
	}
	if len(kept) > 0 {
		d.AddError(fmt.Sprintf("The cell %s was not cleared", c.cell), fmt.Sprintf("The topology controller has refused to clear it out of %s, as it does while the cell's aggregator reports: "+
			"see the events of the protector. Stop the aggregator first; or delete the Cell, which drains it.", some(kept)))
	}
	if len(held) > 0 {
		d.AddError(fmt.Sprintf("The cell %s is not cleared in time", c.cell), fmt.Sprintf("The topology controller has not taken the annotation %s off %s within %s: "+
			"see whether breakwater topology runs in the core. The annotation stays, and is obeyed when it does; take it off by "+
			"kubectl annotate podprotectors %s- if it should not be.", v1alpha1.AnnotationRemoveCell, some(held), c.limit, v1alpha1.AnnotationRemoveCell))
	}
}

// step reads a protector and sets the annotation if no earlier step did.
func (c *clearance) step(ctx context.Context, w *wanted, was stage) (stage, error) {
	protectors := c.cluster.of(c.protectors, w.namespace)
	live, err := protectors.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return after(was, err)
	}
	entry, err := entryOf(live, c.cell)
	if err != nil {
		return was, err
	}
	switch cell := live.GetAnnotations()[v1alpha1.AnnotationRemoveCell]; {
	case cell == c.cell:
		return asked, nil
	case entry == nil:
		return cleared, nil
	case cell != "":
		return pending, nil
	case was == asked:
		return refused, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "annotations": map[string]any{v1alpha1.AnnotationRemoveCell: c.cell},
	}})
	if err != nil {
		return was, err
	}
	if _, err = protectors.Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager + "-actions"}); err != nil {
		return after(was, err)
	}
	return asked, nil
}

// after returns the stage of a protector after a request failed. A deleted protector has no data of any cell.
func after(was stage, err error) (stage, error) {
	switch {
	case apierrors.IsNotFound(err) && !isKindMissing(err):
		return cleared, nil
	case apierrors.IsConflict(err), isPassing(err):
		return was, nil
	}
	return was, err
}

func several(protectors int) string {
	if protectors == 1 {
		return "1 protector"
	}
	return fmt.Sprintf("%d protectors", protectors)
}

// some joins the first names of a list and counts the rest.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
