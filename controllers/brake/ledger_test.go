package brake

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// Two leaders that decide at the same time do not both grant the rest of a window (rule 13).
func TestLeadersShareTheGrants(t *testing.T) {
	for _, exists := range []bool{false, true} {
		c := fake.NewClientBuilder().Build()
		now := time.Now().Truncate(time.Second)
		leader := func() *ledger {
			return &ledger{key: client.ObjectKey{Namespace: "breakwater-system", Name: ConfigMapName}, live: c, writer: c, observed: map[string][]brake.Grant{}}
		}
		grant := func(l *ledger, uid types.UID, meanwhile func()) (seen [][]types.UID) {
			t.Helper()
			err := l.update(t.Context(), "core", func(grants []brake.Grant) []brake.Grant {
				var all []types.UID
				for _, g := range grants {
					all = append(all, g.Protector)
				}
				slices.Sort(all)
				seen = append(seen, all)
				meanwhile()
				return append(slices.Clone(grants), brake.Grant{Protector: uid, At: now})
			})
			if err != nil {
				t.Fatal(err)
			}
			return seen
		}
		if exists {
			grant(leader(), "before", func() {})
		}
		first, second, once := leader(), leader(), true
		seen := grant(first, "a", func() {
			if once {
				once = false
				grant(second, "b", func() {})
			}
		})
		want := [][]types.UID{nil, {"b"}}
		if exists {
			want = [][]types.UID{{"before"}, {"b", "before"}}
		}
		if !slices.EqualFunc(seen, want, slices.Equal) {
			t.Errorf("ConfigMap exists %v: the first leader decided with the grants %v, want %v", exists, seen, want)
		}
		if _, _, err := second.read(context.Background(), brake.Key("core")); err != nil {
			t.Fatal(err)
		}
		if all := second.observedGrants("core"); len(all) != len(want[1])+1 {
			t.Errorf("ConfigMap exists %v: got stored grants %v, want all grants", exists, all)
		}
	}
}
