package brake

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			return &ledger{key: client.ObjectKey{Namespace: "breakwater-system", Name: ConfigMapName}, live: c, writer: c, now: time.Now, observed: map[string][]brake.Grant{}}
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

// A ConfigMap may have 1 MiB. If the grants of deleted policies stayed, no budget could get another one some day.
func TestLedgerForgetsTheBudgetsOfDeletedPolicies(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	grantsAt := func(age time.Duration) string {
		raw, err := json.Marshal([]brake.Grant{{Protector: "p", At: now.Add(-age)}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "breakwater-system", Name: ConfigMapName}, Data: map[string]string{
		"deleted": grantsAt(24 * time.Hour), "empty": "[]", "recent": grantsAt(24*time.Hour - time.Second), "foreign": "?", "core": grantsAt(48 * time.Hour),
	}}
	c := fake.NewClientBuilder().WithObjects(stored).Build()
	l := &ledger{key: client.ObjectKeyFromObject(stored), live: c, writer: c, now: func() time.Time { return now }, observed: map[string][]brake.Grant{}}
	err := l.update(t.Context(), "core", func(grants []brake.Grant) []brake.Grant {
		return append(grants, brake.Grant{Protector: "new", At: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), l.key, stored); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(stored.Data)), []string{"core", "foreign", "recent"}; !slices.Equal(got, want) {
		t.Errorf("the budgets %v are stored, want %v", got, want)
	}
	if got, err := brake.ReadGrants(stored.Data, "core"); err != nil || len(got) != 2 {
		t.Errorf("budget core has the grants %v, error %v, want both", got, err)
	}
}
