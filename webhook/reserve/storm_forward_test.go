package reserve

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// In a storm a replica forwards before it has met a conflict. Protectors and pods have numbers: pod-7 is covered by web-7.
func TestStormIsForwardedWithoutConflicts(t *testing.T) {
	for claim, c := range map[string]struct {
		underWay []int // protectors of the reservations that are under way
		prepare  func(f *forwarder, key types.NamespacedName)
		want     int // forwarded removals
	}{
		"one removal":                           {},
		"two removals with one protector":       {underWay: []int{0}, want: 1},
		"two removals with as many protectors":  {underWay: []int{1}, want: 1},
		"two removals, this replica owns it":    {underWay: []int{1}, prepare: func(f *forwarder, key types.NamespacedName) { own(f, key, true) }},
		"two removals, the owner is suspected":  {underWay: []int{1}, prepare: func(f *forwarder, key types.NamespacedName) { f.markSuspect(f.ownerOf(key)) }},
		"two removals, there is no other owner": {underWay: []int{1}, prepare: func(f *forwarder, _ types.NamespacedName) { f.peers.All = func() []string { return nil } }},
	} {
		t.Run(claim, func(t *testing.T) {
			d, other := newMemoryFixture(t, numberedProtectors(4)...), newMemoryFixture(t, numberedProtectors(4)...)
			server := httptest.NewTLSServer(other.PeerHandler(nil))
			defer server.Close()
			f := newForwarder("core", Peers{Self: "self", Client: server.Client(), All: func() []string { return []string{server.Listener.Addr().String()} }}, nil)
			key := types.NamespacedName{Namespace: "default", Name: "web-0"}
			own(f, key, false)
			if c.prepare != nil {
				c.prepare(f, key)
			}
			release := make(chan struct{})
			d.setFault(func(write func() error) error { <-release; return write() })
			var removing sync.WaitGroup
			remove := func(protector, pod int) {
				removing.Go(func() {
					p := memoryPod(fmt.Sprint("pod-", pod))
					p.Labels["app"] = fmt.Sprint("web-", protector)
					if decision := d.remove(t.Context(), p); decision.Denial != nil {
						t.Errorf("%s: %+v", p.Name, decision.Denial)
					}
				})
			}
			for i, protector := range c.underWay { // without a forwarder, so that they stay under way in this replica
				remove(protector, i)
			}
			testplane.Eventually(t, func() string {
				if n := d.core.Waiting(); n < len(c.underWay) {
					return fmt.Sprintf("%d reservations are under way, want %d", n, len(c.underWay))
				}
				return ""
			})
			d.core.reserver.forwarder = f
			forwarded := func() int { return quota.BudgetOf(other.stored(t, "web-0")).Reserved }
			remove(0, len(c.underWay))
			testplane.Eventually(t, func() string {
				if local := d.core.Waiting() - len(c.underWay); local == 0 && forwarded() == 0 {
					return "the removal is neither forwarded nor in a batch of this replica"
				}
				return ""
			})
			close(release)
			removing.Wait()
			if got := forwarded(); got != c.want {
				t.Errorf("%d removals were forwarded, want %d", got, c.want)
			}
			if left := d.core.reserver.underWay.Load() + other.core.reserver.underWay.Load(); left != 0 {
				t.Errorf("%d reservations are under way at the end, want 0", left)
			}
		})
	}
}

// A replica whose watch is late may have a protector from before its cell was counted and its floor known. It admits without a reservation then, and no
// conflict of a write shows that it is late (simulation, 8000824).
func TestWaiverOfALateReplicaIsNotTrusted(t *testing.T) {
	late := numberedProtectors(1)[0]
	late.Spec.MinAvailable, late.Status.Cells = v1alpha1.Pods(0), nil
	full := memoryProtector("web-0", 100, 100)
	full.Spec.Selector.MatchLabels["app"] = full.Name
	full.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&full.Spec)
	d, other := newMemoryFixture(t, full), newMemoryFixture(t, late)
	server := httptest.NewTLSServer(other.PeerHandler(nil))
	defer server.Close()
	f := newForwarder("core", Peers{Self: "self", Client: server.Client(), All: func() []string { return []string{server.Listener.Addr().String()} }}, nil)
	own(f, types.NamespacedName{Namespace: "default", Name: "web-0"}, false)
	d.core.reserver.forwarder = f
	d.core.reserver.underWay.Add(forwardFrom) // as in a storm
	pod := memoryPod("pod-0")
	pod.Labels["app"] = full.Name
	if decision := d.remove(t.Context(), pod); decision.Denial == nil {
		t.Error("a removal without budget was admitted by a replica that does not know the floor")
	}
}

// Replicas that disagree about the owner must not forward a removal back and forth.
func TestForwardedRemovalIsNotForwardedInStorm(t *testing.T) {
	d := newMemoryFixture(t, numberedProtectors(1)...)
	f := newForwarder("core", Peers{Self: "self", All: func() []string { return []string{"other"} }}, nil)
	key := types.NamespacedName{Namespace: "default", Name: "web-0"}
	own(f, key, false)
	d.core.reserver.forwarder = f // a request to it would fail: it has no client
	var removals []quota.Removal
	for i := range 2 * stormQueueDepth {
		p := memoryPod(fmt.Sprint("pod-", i))
		removals = append(removals, quota.Removal{Cell: memoryCell, PodUID: p.UID, PodName: p.Name, Operation: v1alpha1.OperationDelete, Token: p.Name})
	}
	decisions, err := d.core.reserver.reserveForPeer(t.Context(), key, removals)
	if err != nil || len(decisions) != len(removals) || decisions[0].Verdict.Outcome != quota.Reserved {
		t.Errorf("decisions %+v, %v, want %d reservations", decisions, err, len(removals))
	}
}

// own renames this replica until it owns a protector, or another replica does.
func own(f *forwarder, key types.NamespacedName, want bool) {
	for (f.ownerOf(key) == "") != want {
		f.peers.Self += "f"
	}
}

// numberedProtectors returns protectors that cover the pods with their names as label app.
func numberedProtectors(number int) (protectors []*v1alpha1.PodProtector) {
	for i := range number {
		p := memoryProtector(fmt.Sprint("web-", i), 1, 100)
		p.Spec.Selector.MatchLabels["app"] = p.Name
		p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
		protectors = append(protectors, p)
	}
	return protectors
}
