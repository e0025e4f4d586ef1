package sharder

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func TestMoveResults(t *testing.T) {
	p := planner{
		&v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: ringName}},
		ring.NewShards(map[string]v1alpha1.ShardState{"a": v1alpha1.ShardReady, "b": v1alpha1.ShardReady}, 10),
	}
	shard, drain := v1alpha1.LabelShard(ringName), v1alpha1.LabelDrain(ringName)
	for claim, test := range map[string]struct {
		labels  map[string]string
		uid     types.UID
		outcome outcome
		want    string
	}{
		"is draining while its shard has not released it": {map[string]string{shard: "a", drain: v1alpha1.DrainAsked}, "1", unchanged, ""},
		"has stayed when another client ends the drain":   {map[string]string{shard: "a"}, "1", unchanged, moveStayed},
		"has moved to an available shard":                 {map[string]string{shard: "b"}, "1", unchanged, moveDone},
		"is unassigned with a shard that does not exist":  {map[string]string{shard: "c"}, "1", unchanged, moveUnassigned},
		"is unassigned without a shard":                   {nil, "1", unchanged, moveUnassigned},
		"was deleted":                                     {nil, "1", notFound, moveDeleted},
		"was recreated under the same name":               {map[string]string{shard: "b"}, "2", unchanged, moveDeleted},
	} {
		o := &object{}
		o.Labels, o.UID = test.labels, test.uid
		if got := p.moveResult(&plan{object: o, outcome: test.outcome}, move{uid: "1", from: "a"}); got != test.want {
			t.Errorf("object %s: got result %q, want %q", claim, got, test.want)
		}
	}
}
