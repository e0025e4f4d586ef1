package provider

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// health is how a Cell is, by its conditions.
type health struct {
	// states are True, False or Unknown, and messages say why one is not as it should be; both by the names of attributes.
	states, messages map[string]string
	// problems are sentences.
	problems []string
}

// aspect is one side of a Cell's health, and the condition that tells of it.
type aspect struct {
	attribute, condition string
	// good is the status that it should have, is what it then is.
	good metav1.ConditionStatus
	is   string
	// inside takes a look into the cell's cluster, to which the topology controller does not always know a way.
	inside bool
}

func aspects() []aspect {
	return []aspect{
		{attribute: "ready", condition: v1alpha1.ConditionReady, good: metav1.ConditionTrue, is: "led by an aggregator that counts its pods"},
		{attribute: "connected", condition: v1alpha1.ConditionConnected, good: metav1.ConditionTrue, is: "reached by its kubeconfig", inside: true},
		{attribute: "aggregation_fresh", condition: v1alpha1.ConditionAggregationFresh, good: metav1.ConditionTrue, is: "reported on in time"},
		{attribute: "guarded", condition: v1alpha1.ConditionGuarded, good: metav1.ConditionTrue, is: "guarded by the webhook", inside: true},
		{attribute: "overlapping", condition: v1alpha1.ConditionOverlapping, good: metav1.ConditionFalse, is: "apart from other Cells of its cluster"},
	}
}

// healthOf judges a Cell, as breakwater check does.
func healthOf(cell *v1alpha1.Cell) health {
	h := health{states: map[string]string{}, messages: map[string]string{}}
	if cell.DeletionTimestamp != nil {
		h.problems = append(h.problems, fmt.Sprintf("Cell %s is deleted, and not drained yet.", cell.Name))
	}
	looked := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionConnected) != nil
	for _, a := range aspects() {
		c := meta.FindStatusCondition(cell.Status.Conditions, a.condition)
		switch {
		case c == nil && a.condition == v1alpha1.ConditionOverlapping && looked:
			// It is only written of a Cell that does overlap, or did.
			c = &metav1.Condition{Status: metav1.ConditionFalse}
		case c == nil:
			c = &metav1.Condition{Status: metav1.ConditionUnknown,
				Message: "Nobody has said so yet: see whether breakwater topology and the cell's aggregator run."}
		}
		h.states[a.attribute] = string(c.Status)
		if c.Status == a.good {
			continue
		}
		h.messages[a.attribute] = c.Message
		// Where nobody can look, nothing is known against the cell. Of overlaps nobody knows before the first look.
		if a.inside && isUnseen(cell, c) || a.condition == v1alpha1.ConditionOverlapping && c.Status == metav1.ConditionUnknown {
			continue
		}
		h.problems = append(h.problems, a.problem(cell.Name, c))
	}
	return h
}

// isUnseen tells that nobody can look into a cell's cluster: the Cell names no kubeconfig, and no flag told the topology
// controller the way.
func isUnseen(cell *v1alpha1.Cell, c *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && c.Status == metav1.ConditionUnknown &&
		(c.Reason == "" || c.Reason == v1alpha1.ReasonNoKubeconfig)
}

func (a *aspect) problem(cell string, c *metav1.Condition) string {
	text := fmt.Sprintf("Cell %s is not %s: %s", cell, a.is, c.Message)
	if c.Status == metav1.ConditionUnknown {
		text = fmt.Sprintf("It is not known whether Cell %s is %s: %s", cell, a.is, c.Message)
	}
	return strings.TrimSuffix(text, ".") + "."
}
