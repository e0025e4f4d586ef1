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

func TestDecidingFor(t *testing.T) {
	object := func(core, name, uid string, change func(*v1alpha1.PodProtector)) removal.Charge {
		p := &v1alpha1.PodProtector{}
		p.Name, p.UID = name, types.UID(uid)
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a"}}
		if change != nil {
			change(p)
		}
		return removal.Charge{Core: core, Key: types.NamespacedName{Namespace: "shop", Name: name}, Protector: p}
	}
	shared := func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Share = &v1alpha1.CellShare{} }
	restored := func(p *v1alpha1.PodProtector) { p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "1"} }
	shareOf := func(uid, cell string, closed bool) func(*v1alpha1.PodProtector) {
		return func(p *v1alpha1.PodProtector) {
			p.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: uid, Cell: cell, Closed: closed}
		}
	}
	open, closed := object("shares", "web.share-a", "s", shareOf("1", "a", false)), object("shares", "web.share-a", "s", shareOf("1", "a", true))
	for claim, c := range map[string]struct {
		candidates []removal.Charge
		want       string
		isErr      bool
	}{
		"a protector without shares":           {candidates: []removal.Charge{object("core", "web", "1", nil)}, want: "core/shop/web"},
		"a protector whose share is prepared":  {candidates: []removal.Charge{object("core", "web", "1", nil), closed}, want: "core/shop/web"},
		"an open share":                        {candidates: []removal.Charge{object("core", "web", "1", shared), open}, want: "shares/shop/web.share-a"},
		"a share that is not open yet":         {candidates: []removal.Charge{object("core", "web", "1", shared), closed}, isErr: true},
		"a share that is missing":              {candidates: []removal.Charge{object("core", "web", "1", shared)}, isErr: true},
		"a share of another cell":              {candidates: []removal.Charge{object("core", "web", "1", shared), object("shares", "x", "s", shareOf("1", "b", false))}, isErr: true},
		"an open share beside a surplus one":   {candidates: []removal.Charge{object("core", "web", "1", shared), object("shares", "surplus", "t", shareOf("1", "a", true)), open}, want: "shares/shop/web.share-a"},
		"a share whose protector is not known": {candidates: []removal.Charge{open}, want: "shares/shop/web.share-a"},
		"the share of a recreated protector":   {candidates: []removal.Charge{object("core", "web", "9", func(p *v1alpha1.PodProtector) { shared(p); restored(p) }), open}, want: "shares/shop/web.share-a"},
		"a recreated protector":                {candidates: []removal.Charge{object("core", "web", "9", restored), open}, want: "core/shop/web"},
		"that of the core that was charged":    {candidates: []removal.Charge{object("second", "web", "2", nil), object("core", "web", "1", nil)}, want: "core/shop/web"},
		"another protector of that name":       {candidates: []removal.Charge{object("second", "web", "2", nil)}},
		"a released protector":                 {},
	} {
		t.Run(claim, func(t *testing.T) {
			deciding, ok, err := removal.DecidingFor(c.candidates, &v1alpha1.ShareOf{Name: "web", UID: "1"}, "a")
			if (err != nil) != c.isErr || ok != (c.want != "") || ok && deciding.String() != c.want {
				t.Errorf("DecidingFor() = %s, %v, %v, want %q and an error: %v", deciding, ok, err, c.want, c.isErr)
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
			r := removal.Request{Operation: v1alpha1.OperationDelete, PodName: pod.Name, Pod: removal.NewPod(pod), DryRun: dryRun}
			denial := removal.Preview(charges, r.Attempt("a", time.Now(), ""), r)
			if want := dryRun || previewDenies; (denial != nil) != want {
				t.Errorf("Preview() denies with %d wanted and dry run %v: %v, want %v", wanted, dryRun, denial != nil, want)
			}
		}
		r := removal.Request{Operation: v1alpha1.OperationDelete, PodName: pod.Name, Pod: removal.NewPod(pod)}
		if answer := removal.DecideDryRun(charges, true, "a", r, time.Now()); answer.Allowed {
			t.Errorf("DecideDryRun() admits with %d wanted: %+v", wanted, answer)
		}
	}
}
