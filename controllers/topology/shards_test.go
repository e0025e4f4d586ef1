package topology

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// writeShardHeartbeats writes the heartbeats of shards, each for its slots.
func (l *fixture) writeShardHeartbeats(cell *v1alpha1.Cell, slots map[string]string, reports ...string) {
	l.Helper()
	now := l.get(cell)
	at := metav1.NewMicroTime(l.clock.Add(-24 * time.Hour))
	before := now.Status.Shards
	now.Status.Shards = nil
	for name, slotsText := range slots {
		s := v1alpha1.CellShard{Name: name, Ring: "r", Holder: name + "_1", Epoch: 1, Slots: slotsText}
		for i := range before {
			if before[i].Name == name {
				s.LastHeartbeat = before[i].LastHeartbeat
			}
		}
		for _, reporter := range reports {
			if reporter == name {
				s.LastHeartbeat = &at
				now.Status.Aggregator = v1alpha1.CellAggregator{Holder: name + "_1", Epoch: 1, LastHeartbeat: &at}
			}
		}
		now.Status.Shards = append(now.Status.Shards, s)
	}
	l.must(l.Client.Status().Update(l.Context(), now))
	l.reconcile(cell)
}

func TestShardedCellIsFreshWhenEverySlotReports(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("a", func(s *v1alpha1.CellSpec) { s.WhenStale = v1alpha1.WhenStaleDiscount })
	other := l.createCell("b", func(*v1alpha1.CellSpec) {})
	p := l.protect(3, cell, other)
	own := slot.Set{}.With(slot.Of(l.namespace))
	both := map[string]string{"x": own.String(), "y": own.Complement().String()}
	advance := func(slots map[string]string, reports ...string) {
		t.Helper()
		for range 4 {
			l.clock = l.clock.Add(20 * time.Second)
			l.writeShardHeartbeats(cell, slots, reports...)
		}
	}
	discount := func() v1alpha1.Discount { return l.protector(p).Status.Cells[0].Discount }

	advance(both, "x", "y")
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen, "each slot")
	// One shard is silent: that does not affect the protectors of the other's namespaces.
	advance(both, "x")
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "of shard y", "255 of 256")
	if discount() != "" {
		t.Errorf("discount %q for a slot with reports, want none", discount())
	}
	// A slot that no shard has becomes silent after a while.
	advance(map[string]string{"y": both["y"]}, "y")
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, own.String()+" of no shard", "1 of 256")
	if discount() != v1alpha1.DiscountStale {
		t.Errorf("discount %q for a slot without a shard, want Stale", discount())
	}
	// A shard that takes the slot does not end that; its next heartbeat does.
	l.writeShardHeartbeats(cell, both, "y")
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, own.String()+" of shard x")
	l.clock = l.clock.Add(time.Second)
	l.writeShardHeartbeats(cell, both, "x", "y")
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	// All shards have left.
	advance(nil)
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "No aggregator of the cell")
}
