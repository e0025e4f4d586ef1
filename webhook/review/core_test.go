package review

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// The CRD refuses such selectors; an object from before the CRD's rule, or from another CRD, may have one.
func TestMalformedSelectorCoversNamespace(t *testing.T) {
	for claim, requirement := range map[string]v1alpha1.PodSelectorRequirement{
		"an operator that does not exist": {Key: "app", Operator: "Like", Values: []string{"web"}},
		"In without values":               {Key: "app", Operator: metav1.LabelSelectorOpIn},
		"Exists with values":              {Key: "app", Operator: metav1.LabelSelectorOpExists, Values: []string{"web"}},
		"an invalid key":                  {Key: "a b", Operator: metav1.LabelSelectorOpExists},
	} {
		t.Run(claim, func(t *testing.T) {
			p := memoryProtector("web", 1, 1)
			p.Spec.Selector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{requirement}}
			d := newMemoryFixture(t, p)
			pod := memoryPod("db-0")
			pod.Labels = map[string]string{"app": "db"}
			if answer := d.remove(t.Context(), pod); answer.Allowed || answer.Verdict != "NoBudget" {
				t.Errorf("answer %+v, want it refused by the protector with the malformed selector", answer)
			}
			pod.Namespace = "elsewhere"
			if answer := d.remove(t.Context(), pod); !answer.Allowed || answer.Verdict != removal.VerdictUnprotected {
				t.Errorf("answer %+v in another namespace, want it allowed", answer)
			}
		})
	}
}

func TestNewestSelectorDeterminesCoverage(t *testing.T) {
	d := newMemoryFixture(t)
	covered := func() []string {
		var names []string
		for _, key := range d.core.States.Covering("c0", "default", map[string]string{"app": "web"}) {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		return names
	}
	want := func(claim string, names ...string) {
		t.Helper()
		if got := covered(); !slices.Equal(got, names) {
			t.Errorf("%s: covered by %v, want %v", claim, got, names)
		}
	}
	a, b := memoryProtector("a", 1, 1), memoryProtector("b", 1, 1)
	d.core.States.SetCoverage(a)
	d.core.States.SetCoverage(b)
	d.core.States.SetCoverage("not a protector")
	want("two protectors", "a", "b")
	a.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "other"}}
	d.core.States.SetCoverage(a)
	want("one has changed", "b")
	d.core.States.HandleDelete(toolscache.DeletedFinalStateUnknown{Key: "default/b"})
	want("the other was deleted while the watch was interrupted")
	d.core.States.HandleDelete("not a protector")
}

func TestDeniesBeforeProtectorsAreRead(t *testing.T) {
	d := newMemoryFixture(t)
	d.core.Synced.Store(false)
	answer := d.remove(t.Context(), memoryPod("web-0"))
	if answer.Allowed || answer.Verdict != removal.VerdictUnknown || answer.Status.Code != 429 {
		t.Errorf("answer %+v, want it refused as unknown with 429", answer)
	}
	if err := d.Ready(); err == nil || err.Error() != `PodProtectors of core cluster "core" are not read yet` {
		t.Errorf("Ready() = %v before the protectors were read, want that they are not read yet", err)
	}
	d.core.Synced.Store(true)
	if err := d.Ready(); err != nil {
		t.Errorf("Ready() = %v, want nil", err)
	}
}

func TestDeletedProtectorDeniesNothing(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 5, 5))
	if err := d.client.Delete(context.Background(), memoryProtector("web", 5, 5)); err != nil {
		t.Fatal(err)
	}
	// Its selector is still in the index.
	if answer := d.remove(t.Context(), memoryPod("web-0")); !answer.Allowed || answer.Verdict != removal.VerdictUnprotected {
		t.Errorf("answer %+v, want it allowed as unprotected", answer)
	}
}

// Its protector still decides, and gives the cell another share (rule S6).
func TestDeletedShareDeniesAll(t *testing.T) {
	of, share := memoryProtector("web", 5, 9), memoryProtector("web.share", 5, 9)
	of.UID, of.Status.Cells[0].Share = "1", &v1alpha1.CellShare{Floor: 5}
	share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: memoryCell}
	d := newMemoryFixture(t, of, share)
	d.setFault(func(write func() error) error {
		return errors.Join(d.client.Delete(t.Context(), share.DeepCopy()), write())
	})
	if answer := d.remove(t.Context(), memoryPod("web-0")); answer.Allowed {
		t.Errorf("a removal is allowed whose share was deleted before it was reserved: %+v", answer)
	}
}

func TestDomainLossBudgetWakesNoController(t *testing.T) {
	kept := zonal("web", corev1.LabelTopologyZone)
	kept.Status.Cells[0].Aggregation.Spread.Domains = nil // the domains of the pods are unknown
	d := newMemoryFixture(t, kept)
	ref := d.cores.Ref(removal.Charge{Core: d.core.Name, Key: types.NamespacedName{Namespace: "default", Name: "web"}})
	if left := quota.BudgetOf(kept).Left(); left != 6 {
		t.Fatalf("%d pods above the floor, want 6", left)
	}
	if budget := ref.Budget(t.Context()); budget != 0 {
		t.Errorf("budget %d, want 0", budget)
	}
}
