package removal_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestWithShares(t *testing.T) {
	protector := func(name, uid string, sharedIn ...string) removal.Charge {
		p := &v1alpha1.PodProtector{}
		p.Name, p.UID = name, types.UID(uid)
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a"}, {CellID: "b"}}
		for i := range p.Status.Cells {
			if slices.Contains(sharedIn, p.Status.Cells[i].CellID) {
				p.Status.Cells[i].Share = &v1alpha1.CellShare{}
			}
		}
		return removal.Charge{Core: "core", Key: types.NamespacedName{Name: name}, Protector: p}
	}
	share := func(cell, uid string) removal.Charge {
		p := &v1alpha1.PodProtector{}
		p.Spec.ShareOf = &v1alpha1.ShareOf{Name: map[string]string{"1": "web", "2": "other"}[uid], UID: uid, Cell: cell}
		return removal.Charge{Core: cell, Key: types.NamespacedName{Name: "share-of-" + uid}, Protector: p}
	}
	for claim, c := range map[string]struct {
		covering []removal.Charge
		want     []string
		isErr    bool
	}{
		"a protector without shares":               {covering: []removal.Charge{protector("web", "1")}, want: []string{"core//web"}},
		"a share replaces its protector":           {covering: []removal.Charge{protector("web", "1", "a"), share("a", "1")}, want: []string{"a//share-of-1"}},
		"a share that is prepared does not apply":  {covering: []removal.Charge{protector("web", "1"), share("a", "1")}, want: []string{"core//web"}},
		"a share of another cell does not apply":   {covering: []removal.Charge{protector("web", "1", "b"), share("b", "1")}, want: []string{"core//web"}},
		"a share of an unknown protector applies":  {covering: []removal.Charge{share("a", "1")}, want: []string{"a//share-of-1"}},
		"a protector whose share is missing":       {covering: []removal.Charge{protector("web", "1", "a")}, isErr: true},
		"a share of another protector is no share": {covering: []removal.Charge{protector("web", "1", "a"), share("a", "2")}, isErr: true},
		"each protector by itself": {
			covering: []removal.Charge{protector("web", "1", "a"), protector("all", "2"), share("a", "1")}, want: []string{"core//all", "a//share-of-1"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			charges, err := removal.WithShares(c.covering, "a")
			var got []string
			for _, charge := range charges {
				got = append(got, charge.String())
			}
			if (err != nil) != c.isErr || !slices.Equal(got, c.want) {
				t.Errorf("WithShares() = %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// A dry run records nothing, so it must not leave the denial of a share to the write that records it.
func TestDryRunIsDeniedByAShareWithoutBudget(t *testing.T) {
	p := &v1alpha1.PodProtector{}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(1)
	p.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: "a"}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{CountedReplicas: 1, CountedSpec: quota.CountedSpec(&p.Spec)}}}
	charges := []removal.Charge{{Core: "shares", Protector: p}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "0"}, Spec: corev1.PodSpec{NodeName: "node"}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for wanted, previewDenies := range []bool{false, true} {
		p.Status.Wanted = int32(wanted)
		for _, dryRun := range []bool{true, false} {
			r := removal.Request{Operation: v1alpha1.OperationDelete, PodName: pod.Name, Pod: pod, DryRun: dryRun}
			denial := removal.Preview(charges, r.Attempt("a", time.Now(), ""), r)
			if want := dryRun || previewDenies; (denial != nil) != want {
				t.Errorf("Preview() denies with %d wanted and dry run %v: %v, want %v", wanted, dryRun, denial != nil, want)
			}
		}
		r := removal.Request{Operation: v1alpha1.OperationDelete, PodName: pod.Name, Pod: pod}
		if answer := removal.DecideDryRun(charges, true, "a", r, time.Now()); answer.Allowed {
			t.Errorf("DecideDryRun() admits with %d wanted: %+v", wanted, answer)
		}
	}
}
