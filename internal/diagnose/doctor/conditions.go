package doctor

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// CellProblem describes the conditions of a Cell that indicate a problem. It is empty if there is none.
func CellProblem(cell *v1alpha1.Cell) string {
	if !cell.DeletionTimestamp.IsZero() {
		return "is deleted, and not drained yet"
	}
	var problems []string
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded,
	} {
		switch condition := meta.FindStatusCondition(cell.Status.Conditions, name); {
		case isUnseen(cell, name, condition):
		case condition == nil:
			problems = append(problems, fmt.Sprintf("nobody has said yet whether it is %s: see that the aggregator and the topology controller run", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	if meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionOverlapping) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping).Message)
	}
	return strings.Join(problems, "; ")
}

// isUnseen reports whether a condition is missing because the topology controller cannot connect to the cluster: the Cell has no
// kubeconfig, and no flag gives the controller access to the cluster.
func isUnseen(cell *v1alpha1.Cell, name string, condition *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && (name == v1alpha1.ConditionConnected || name == v1alpha1.ConditionGuarded) &&
		(condition == nil || condition.Reason == v1alpha1.ReasonNoKubeconfig)
}

// cells judges the Cells of a core: whether an aggregator counts them, and their conditions.
func cells(core *Core, now time.Time) []Finding {
	f := finder{core.where(), "cells"}
	if err := core.Cells.Err; err != nil {
		return f.unread("Cells", err, "Ask for the right to list cells, or see --as.")
	}
	if len(core.Cells.Value) == 0 {
		return []Finding{f.bad(Problem, "There are no Cells, so that no pod is counted and no removal is admitted where the webhook is asked.",
			"Join a cluster by breakwater join, or name one in the chart's values.", "")}
	}
	var found []Finding
	for i := range core.Cells.Value {
		found = append(found, cell(f, core.Name, &core.Cells.Value[i], now)...)
	}
	return f.or(found, "All %d are counted, connected and guarded.", len(core.Cells.Value))
}

func cell(f finder, core string, c *v1alpha1.Cell, now time.Time) []Finding {
	name := "Cell " + c.Name
	switch seen := status.OfCell(core, c, now); {
	case seen.Draining:
		return []Finding{f.bad(Warning, name+" is being deleted, and waits until nothing of it is left.",
			"See docs/topology.md if that takes longer than minutes.", "")}
	case seen.State == status.CellNeverReported:
		return []Finding{f.bad(Problem, name+" was never counted.", "Start an aggregator for it, and look at its log.", "cell-silent")}
	case seen.Stale:
		return []Finding{f.bad(Problem, fmt.Sprintf("%s is silent: its aggregator, which was %s, has not reported for longer than %ds.", name, holder(&seen), seen.StaleAfter),
			"Look whether the aggregator runs and reaches both clusters.", "cell-silent")}
	}
	problem := CellProblem(c)
	if problem == "" {
		return nil
	}
	runbook := "cell-silent"
	if meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionGuarded) {
		runbook = "cell-unguarded"
	}
	return []Finding{f.bad(Problem, name+": "+problem, "kubectl breakwater cells "+c.Name+" shows it.", runbook)}
}

func holder(c *status.Cell) string {
	if c.Holder == "" {
		return "nobody"
	}
	return c.Holder
}
