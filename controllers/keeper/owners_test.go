package keeper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// An owner that wrote the protector since its recreation owns what it wrote, too. Fields without an owner could not be removed by one.
func TestOwnersKeepWhatTheyWroteSinceTheRecreation(t *testing.T) {
	entry := func(version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: "terraform", Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const recorded = `{"f:spec":{"f:minAvailable":{}}}`
	for claim, c := range map[string]struct {
		record, since metav1.ManagedFieldsEntry
		want          []string
	}{
		"another field":               {entry("v1", recorded), entry("v1", `{"f:spec":{"f:selector":{}}}`), []string{`{"f:spec":{"f:minAvailable":{},"f:selector":{}}}`}},
		"another version of the API":  {entry("v1", recorded), entry("v2", `{"f:spec":{"f:selector":{}}}`), []string{recorded, `{"f:spec":{"f:selector":{}}}`}},
		"a record that was edited":    {entry("v1", `{"spec":{}}`), entry("v1", recorded), []string{recorded}},
		"a record that has no fields": {metav1.ManagedFieldsEntry{Manager: "terraform", Operation: "Apply", APIVersion: "v1"}, entry("v1", recorded), []string{recorded}},
	} {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, ManagedFields: []metav1.ManagedFieldsEntry{c.since}}}
		if err := carry(p, v1alpha1.AnnotationRestoredOwners, []metav1.ManagedFieldsEntry{c.record}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, owner := range restoredOwners(p) {
			got = append(got, owner.FieldsV1.GetRawString())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: the fields of the owners differ (-want +got):\n%s", claim, diff)
		}
	}
}
