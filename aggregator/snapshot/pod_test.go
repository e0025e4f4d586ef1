package snapshot

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestStrippedPodKeepsCountedFields(t *testing.T) {
	whole := receivedPod(t, 1)
	transformed, err := New(nil, nil, time.Now, time.Now).Transformer()(whole)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := transformed.(*pod)
	if !ok {
		t.Fatalf("stripped to a %T", transformed)
	}
	if p.hash != quota.HashUID(whole.UID) || p.namespace.Value() != whole.Namespace || p.facts != podhealth.FactsOf(whole) {
		t.Errorf("stripped to %+v", p)
	}
	if diff := cmp.Diff(whole.Labels, p.labels.ToMap(map[string]string{"left": "over"})); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestListOfOtherObjectsFails(t *testing.T) {
	if _, err := New(nil, nil, time.Now, time.Now).Transformer()(&corev1.Node{}); err == nil {
		t.Error("a node was stripped")
	}
}

// Memory: a whole pod takes a hundred times the memory of a stripped one, and keeping one of its strings would keep
// part of that.
func TestStrippedPodsReleaseWholePods(t *testing.T) {
	strip := stripping(1)
	var (
		kept   []*pod
		wholes []weak.Pointer[corev1.Pod]
		labels []weak.Pointer[byte] // their values as they were received
	)
	for i := range 3 {
		whole := receivedPod(t, i*benchReplicaSets) // all of one ReplicaSet
		kept = append(kept, strip(whole))
		wholes = append(wholes, weak.Make(whole))
		for _, value := range whole.Labels {
			if len(value) > 16 { // shorter ones share memory with other small allocations of that time
				labels = append(labels, weak.Make(unsafe.StringData(value)))
			}
		}
	}
	runtime.GC()
	for i := range wholes {
		if wholes[i].Value() != nil {
			t.Errorf("pod %d is still in memory", i)
		}
		if kept[i].labels != kept[0].labels {
			t.Errorf("pod %d shares no labels with the first of its ReplicaSet", i)
		}
	}
	for i := range labels {
		if labels[i].Value() != nil {
			t.Errorf("label %d of %d is still in memory as it was received", i, len(labels))
		}
	}
	runtime.KeepAlive(kept)
}

// A set of labels is equivalent to the map that it was made from.
func TestLabelSetsAreMaps(t *testing.T) {
	maps := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "\x01", "1\x011", strings.Repeat("long", 5000)}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		sets, room := labelSets{}, map[string]string{}
		one, other := maps.Draw(t, "one"), maps.Draw(t, "other")
		first, second := sets.intern(one), sets.intern(other)
		equal := cmp.Equal(one, other)
		if (first == second) != equal || first.equal(other) != equal || !first.equal(one) {
			t.Fatalf("%v and %v: same set %v, equal %v", one, other, first == second, first.equal(other))
		}
		if diff := cmp.Diff(one, first.ToMap(room)); diff != "" {
			t.Fatalf("read (-want +got):\n%s", diff)
		}
		sets.release(first)
		sets.release(second)
		if len(sets) != 0 {
			t.Fatalf("%d label sets kept without users, want 0", len(sets))
		}
	})
}
