package keeper

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A field that its owner no longer applies must not stay because the keeper owns it too.
func TestFormerOwnersReplaceTheKeeper(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource}
	}
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	lost := newHeldProtector("a", func(p *v1alpha1.PodProtector) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{
			entry("breakwater-generator", apply, ""), entry("kubectl-edit", update, ""), entry("breakwater-aggregator", update, "status"),
		}
	})
	now := []metav1.ManagedFieldsEntry{
		entry(Name, update, ""), entry("breakwater-generator", apply, ""), entry("breakwater-generator", update, ""), entry(Name, update, "status"),
	}
	for claim, c := range map[string]struct {
		change func(p *v1alpha1.PodProtector)
		want   string
	}{
		"the record":                    {func(*v1alpha1.PodProtector) {}, "breakwater-generator Apply, kubectl-edit Update, breakwater-generator Update, " + Name + " Update status"},
		"no record":                     {func(p *v1alpha1.PodProtector) { p.Annotations = nil }, Name + " Update, breakwater-generator Apply, breakwater-generator Update, " + Name + " Update status"},
		"a record that cannot be read":  {func(p *v1alpha1.PodProtector) { p.Annotations[v1alpha1.AnnotationRestoredOwners] = "[" }, Name + " Update, breakwater-generator Apply, breakwater-generator Update, " + Name + " Update status"},
		"the record of its second loss": {func(p *v1alpha1.PodProtector) { p.Annotations[v1alpha1.AnnotationRestored] = "a" }, "breakwater-generator Apply, kubectl-edit Update, breakwater-generator Update, " + Name + " Update status"},
	} {
		recreated := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, ManagedFields: now}}
		if err := carry(recreated, v1alpha1.AnnotationRestoredOwners, ownersOf(lost)); err != nil {
			t.Fatal(err)
		}
		c.change(recreated)
		var got []string
		for _, owner := range restoredOwners(recreated) {
			got = append(got, strings.TrimSpace(owner.Manager+" "+string(owner.Operation)+" "+owner.Subresource))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: the owners are %s, want %s", claim, got, c.want)
		}
	}
}

// A protector that vanishes again, with its status and before its owners were restored, has only the keeper as owner. Its record has the others.
func TestOwnersSurviveASecondLoss(t *testing.T) {
	keeper := []metav1.ManagedFieldsEntry{{Manager: Name, Operation: metav1.ManagedFieldsOperationUpdate}}
	for _, isComplete := range []bool{false, true} {
		lost := newHeldProtector("a", func(p *v1alpha1.PodProtector) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "breakwater-generator", Operation: metav1.ManagedFieldsOperationApply}}
		})
		second := newHeldProtector("b", func(p *v1alpha1.PodProtector) {
			p.Annotations, p.ManagedFields = map[string]string{v1alpha1.AnnotationRestored: "a"}, keeper
			if isComplete {
				p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue}}
			}
		})
		if err := carry(second, v1alpha1.AnnotationRestoredOwners, ownersOf(lost)); err != nil {
			t.Fatal(err)
		}
		r := newReconciler(t)
		r.Losses.handler().OnDelete(second)
		third := r.reconcileAndGet(t)
		third.ManagedFields = keeper
		if got := restoredOwners(third); len(got) != 1 || got[0].Manager != "breakwater-generator" {
			t.Errorf("the owners after the second loss are %v, want the generator (status restored before: %v)", got, isComplete)
		}
	}
}
