package check

import (
	"context"
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// checkCells returns one finding per Cell, or a single finding if there are no Cells.
func (c *Checker) checkCells(ctx context.Context) []Finding {
	list := &v1alpha1.CellList{}
	if err := c.Client.List(ctx, list); err != nil {
		return []Finding{{"Cells", fmt.Sprintf("cannot be listed: %v", err)}}
	}
	if len(list.Items) == 0 {
		return []Finding{{"Cells", "there are none, so no pod is counted: add a worker with breakwater join, or list one in the chart's values"}}
	}
	var all []Finding
	for i := range list.Items {
		all = append(all, Finding{"Cell " + list.Items[i].Name, doctor.CellProblem(&list.Items[i])})
	}
	return all
}
