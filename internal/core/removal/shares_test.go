package removal_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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
