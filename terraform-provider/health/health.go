// Package health evaluates Cells.
package health

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Health is the health of a Cell, according to its conditions.
type Health struct {
	// States holds True, False or Unknown, and Messages the reasons for an unhealthy state. Both are keyed by attribute name.
	States, Messages map[string]string
	// Problems holds full sentences.
	Problems []string
}

// aspect is one aspect of a Cell's health, and the condition that reports it.
type aspect struct {
	attribute, condition string
	// healthyStatus is the status of a healthy cell, and is describes that status.
	healthyStatus metav1.ConditionStatus
	description   string
	// needsAccess means that the condition needs access to the cell's cluster, which the topology controller does not always have.
	needsAccess bool
}

func aspects() []aspect {
	return []aspect{
		{attribute: "ready", condition: v1alpha1.ConditionReady, healthyStatus: metav1.ConditionTrue, description: "led by an aggregator that counts its pods"},
		{attribute: "connected", condition: v1alpha1.ConditionConnected, healthyStatus: metav1.ConditionTrue, description: "reachable by its kubeconfig",
			needsAccess: true},
		{attribute: "aggregation_fresh", condition: v1alpha1.ConditionAggregationFresh, healthyStatus: metav1.ConditionTrue, description: "reported on in time"},
		{attribute: "guarded", condition: v1alpha1.ConditionGuarded, healthyStatus: metav1.ConditionTrue, description: "guarded by the webhook", needsAccess: true},
		{attribute: "overlapping", condition: v1alpha1.ConditionOverlapping, healthyStatus: metav1.ConditionFalse,
			description: "separate from other Cells of its cluster"},
	}
}

// Of evaluates a Cell as breakwater check does.
func Of(cell *v1alpha1.Cell) Health {
	h := Health{States: map[string]string{}, Messages: map[string]string{}}
	if cell.DeletionTimestamp != nil {
		h.Problems = append(h.Problems, fmt.Sprintf("Cell %s is being deleted and is not drained yet.", cell.Name))
	}
	looked := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionConnected) != nil
	for _, a := range aspects() {
		c := meta.FindStatusCondition(cell.Status.Conditions, a.condition)
		switch {
		case c == nil && a.condition == v1alpha1.ConditionOverlapping && looked:
			// The topology controller writes this condition only for a Cell that overlaps or did overlap.
			c = &metav1.Condition{Status: metav1.ConditionFalse}
		case c == nil:
			c = &metav1.Condition{Status: metav1.ConditionUnknown,
				Message: "No controller has set the condition yet: check that breakwater topology and the cell's aggregator run."}
		}
		h.States[a.attribute] = string(c.Status)
		if c.Status == a.healthyStatus {
			continue
		}
		h.Messages[a.attribute] = c.Message
		// If the topology controller has no access to the cluster, the unknown status is not a problem. Neither is an unknown
		// overlap before the first check.
		if a.needsAccess && isUnobservable(cell, c) || a.condition == v1alpha1.ConditionOverlapping && c.Status == metav1.ConditionUnknown {
			continue
		}
		h.Problems = append(h.Problems, a.problem(cell.Name, c))
	}
	return h
}

// isUnobservable reports whether the topology controller has no access to a cell's cluster: the Cell names no kubeconfig, and no flag
// of the controller provides one.
func isUnobservable(cell *v1alpha1.Cell, c *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && c.Status == metav1.ConditionUnknown &&
		(c.Reason == "" || c.Reason == v1alpha1.ReasonNoKubeconfig)
}

func (a *aspect) problem(cell string, c *metav1.Condition) string {
	text := fmt.Sprintf("Cell %s is not %s: %s", cell, a.description, c.Message)
	if c.Status == metav1.ConditionUnknown {
		text = fmt.Sprintf("It is not known whether Cell %s is %s: %s", cell, a.description, c.Message)
	}
	return strings.TrimSuffix(text, ".") + "."
}
