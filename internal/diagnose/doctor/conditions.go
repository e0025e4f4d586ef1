package doctor

import (
	"cmp"
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
		return "is being deleted and is not drained yet"
	}
	var problems []string
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded,
	} {
		switch condition := meta.FindStatusCondition(cell.Status.Conditions, name); {
		case isUnobservable(cell, name, condition):
		case condition == nil:
			problems = append(problems, fmt.Sprintf("no controller has set condition %s yet: check that the aggregator and the topology controller run", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	if meta.IsStatusConditionFalse(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable).Message)
	}
	if meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionOverlapping) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping).Message)
	}
	return strings.Join(problems, "; ")
}

// isUnobservable reports whether a condition is missing because the topology controller cannot connect to the cluster: the Cell has no
// kubeconfig, and no flag gives the controller access to the cluster.
func isUnobservable(cell *v1alpha1.Cell, name string, condition *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && (name == v1alpha1.ConditionConnected || name == v1alpha1.ConditionGuarded) &&
		(condition == nil || condition.Reason == v1alpha1.ReasonNoKubeconfig)
}

// checkCells judges the Cells of a core: whether an aggregator counts them, and their conditions.
func checkCells(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "cells"}
	if err := core.Cells.Err; err != nil {
		return f.unreadable("Cells", err, "Ask for permission to list cells, or use --as.")
	}
	if len(core.Cells.Value) == 0 {
		return []Finding{f.finding(Problem, "There are no Cells, so no aggregator counts pods and the webhook denies every removal that it reviews.",
			"Add a cluster with breakwater join, or list one in the chart's values.", "")}
	}
	var found []Finding
	for i := range core.Cells.Value {
		found = append(found, checkCell(f, core.Name, &core.Cells.Value[i], now)...)
	}
	return f.orOK(found, "All %d are counted, connected and guarded.", len(core.Cells.Value))
}

func checkCell(f reporter, core string, c *v1alpha1.Cell, now time.Time) []Finding {
	name := "Cell " + c.Name
	switch state := status.OfCell(core, c, now); {
	case state.Draining:
		return []Finding{f.finding(Warning, name+" is being deleted and is not drained yet.",
			"See docs/concepts/topology.md if that takes longer than a few minutes.", "")}
	case state.State == status.CellNeverReported:
		return []Finding{f.finding(Problem, name+" was never counted.", "Start an aggregator for it, and read its log.", "cell-silent")}
	case state.Stale:
		return []Finding{f.finding(Problem, fmt.Sprintf("%s is silent: its aggregator (last holder: %s) has not reported for more than %ds.", name, cmp.Or(state.Holder, "none"), state.StaleAfter),
			"Check that the aggregator runs and can reach both clusters.", "cell-silent")}
	}
	problem := CellProblem(c)
	if problem == "" {
		return nil
	}
	runbook := "cell-silent"
	if alarms := status.OfCell(core, c, now).Alarms; len(alarms) > 0 {
		runbook = alarms[0].Runbook
	}
	return []Finding{f.finding(Problem, name+": "+problem, "For details: kubectl breakwater cells "+c.Name, runbook)}
}
