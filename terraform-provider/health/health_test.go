package health

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// conditions returns healthy conditions, with the given ones replaced. An empty status removes a condition.
func conditions(but ...metav1.Condition) []metav1.Condition {
	var all []metav1.Condition
	for _, a := range aspects() {
		c := metav1.Condition{Type: a.condition, Status: a.healthyStatus, Message: "Good."}
		for _, b := range but {
			if b.Type == c.Type {
				c = b
			}
		}
		if c.Status != "" {
			all = append(all, c)
		}
	}
	return all
}

func TestOf(t *testing.T) {
	secret := &v1alpha1.KubeconfigSecretRef{Namespace: "breakwater-system", Name: "worker-1"}
	not := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
	}
	unseen := []metav1.Condition{
		not(v1alpha1.ConditionConnected, "Unknown", v1alpha1.ReasonNoKubeconfig, "not checked"),
		not(v1alpha1.ConditionGuarded, "Unknown", v1alpha1.ReasonNoKubeconfig, "not checked"),
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		cell     v1alpha1.Cell
		states   string
		problems string
	}{
		"healthy": {
			v1alpha1.Cell{Spec: v1alpha1.CellSpec{KubeconfigSecretRef: secret}, Status: v1alpha1.CellStatus{Conditions: conditions()}},
			"True True True True False", "",
		},
		"without the condition Overlapping": {
			v1alpha1.Cell{Status: v1alpha1.CellStatus{Conditions: conditions(metav1.Condition{Type: v1alpha1.ConditionOverlapping})}},
			"True True True True False", "",
		},
		"without a kubeconfig, unchecked conditions are no problem": {
			v1alpha1.Cell{Status: v1alpha1.CellStatus{Conditions: conditions(unseen...)}},
			"True Unknown True Unknown False", "",
		},
		"with a kubeconfig, unchecked conditions are a problem": {
			v1alpha1.Cell{Spec: v1alpha1.CellSpec{KubeconfigSecretRef: secret}, Status: v1alpha1.CellStatus{Conditions: conditions(
				not(v1alpha1.ConditionGuarded, "Unknown", v1alpha1.ReasonConfigurationUnread, "It cannot be read."))}},
			"True True True Unknown False", "It is not known whether Cell worker-1 is guarded by the webhook: It cannot be read.",
		},
		"a new Cell without conditions": {
			v1alpha1.Cell{},
			"Unknown Unknown Unknown Unknown Unknown",
			"It is not known whether Cell worker-1 is led by an aggregator that counts its pods: No controller has set the condition yet: check that breakwater topology and the cell's aggregator run. " +
				"It is not known whether Cell worker-1 is reported on in time: No controller has set the condition yet: check that breakwater topology and the cell's aggregator run.",
		},
		"a Cell of another cluster without all conditions": {
			v1alpha1.Cell{Spec: v1alpha1.CellSpec{KubeconfigSecretRef: secret}, Status: v1alpha1.CellStatus{Conditions: conditions(
				metav1.Condition{Type: v1alpha1.ConditionConnected}, metav1.Condition{Type: v1alpha1.ConditionOverlapping})}},
			"True Unknown True True Unknown",
			"It is not known whether Cell worker-1 is reachable by its kubeconfig: No controller has set the condition yet: check that breakwater topology and the cell's aggregator run.",
		},
		"each unhealthy condition, with its message": {
			v1alpha1.Cell{Status: v1alpha1.CellStatus{Conditions: conditions(
				not(v1alpha1.ConditionReady, "False", "", "No leader."), not(v1alpha1.ConditionConnected, "False", "", "Refused"),
				not(v1alpha1.ConditionAggregationFresh, "False", "", "Silent."), not(v1alpha1.ConditionGuarded, "False", "", "No webhook."),
				not(v1alpha1.ConditionOverlapping, "True", "", "As worker-2."))}},
			"False False False False True",
			"Cell worker-1 is not led by an aggregator that counts its pods: No leader. Cell worker-1 is not reachable by its kubeconfig: Refused. " +
				"Cell worker-1 is not reported on in time: Silent. Cell worker-1 is not guarded by the webhook: No webhook. " +
				"Cell worker-1 is not separate from other Cells of its cluster: As worker-2.",
		},
		"a Cell that is drained is not healthy": {
			v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: v1alpha1.CellStatus{Conditions: conditions()}},
			"True True True True False", "Cell worker-1 is being deleted and is not drained yet.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cell.Name = "worker-1"
			h := Of(&c.cell)
			states := make([]string, 0, len(h.States))
			for _, a := range aspects() {
				states = append(states, h.States[a.attribute])
				if _, told := h.Messages[a.attribute]; told == (h.States[a.attribute] == string(a.healthyStatus)) {
					t.Errorf("%s is %s with the message %q", a.attribute, h.States[a.attribute], h.Messages[a.attribute])
				}
			}
			if diff := cmp.Diff(c.states, strings.Join(states, " ")); diff != "" {
				t.Errorf("states: %s", diff)
			}
			if diff := cmp.Diff(c.problems, strings.Join(h.Problems, " ")); diff != "" {
				t.Errorf("problems: %s", diff)
			}
		})
	}
}
