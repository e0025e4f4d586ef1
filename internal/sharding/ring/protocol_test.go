package ring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// The page of the protocol is what a shard in another language is written from.
func TestProtocolPage(t *testing.T) {
	content, err := os.ReadFile("../../../docs/reference/sharding-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	t.Run("has all names and values of the code", func(t *testing.T) {
		for _, text := range []string{
			v1alpha1.LabelRing, v1alpha1.LabelShard("RING"), v1alpha1.LabelDrain("RING"), v1alpha1.AnnotationShardingKey,
			v1alpha1.DrainAsked, v1alpha1.DrainAnswered, leaseholder.Returning("NAME"), leaseholder.Revoked, v1alpha1.LabelShard("RING") + "=NAME",
			string(v1alpha1.ShardReady), string(v1alpha1.ShardExpired), string(v1alpha1.ShardUncertain), string(v1alpha1.ShardDead), string(v1alpha1.ShardOrphaned),
		} {
			if !strings.Contains(page, "`"+text+"`") {
				t.Errorf("the page does not have `%s`", text)
			}
		}
		if text := fmt.Sprintf("outside 1 to %d", leaseholder.MaxLeaseSeconds); !strings.Contains(page, text) {
			t.Errorf("the page does not have %q", text)
		}
		for _, name := range regexp.MustCompile(`breakwater\.dev/[-a-zA-Z]+`).FindAllString(page, -1) {
			switch strings.Replace(name, "-shops", "-RING", 1) {
			case v1alpha1.LabelRing, v1alpha1.LabelShard("RING"), v1alpha1.LabelDrain("RING"), v1alpha1.AnnotationShardingKey, v1alpha1.GroupVersion.Group + "/v":
			default:
				t.Errorf("the page has %s, which the code does not have", name)
			}
		}
	})
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(examples) != 2 {
		t.Fatalf("got %d examples in JSON, want a Lease and a patch", len(examples))
	}
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal([]byte(examples[0][1]), lease); err != nil {
		t.Fatal(err)
	}
	t.Run("has a Lease that the sharder accepts", func(t *testing.T) {
		if err := ring.CheckLease(lease); err != nil || lease.Labels[v1alpha1.LabelRing] != "shops" {
			t.Errorf("CheckLease() = %v, of ring %q", err, lease.Labels[v1alpha1.LabelRing])
		}
	})
	t.Run("has the states of a Lease", func(t *testing.T) { checkStates(t, page, lease) })
	t.Run("has a patch that releases an object", func(t *testing.T) {
		before := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			"app": "web", v1alpha1.LabelShard("shops"): "shops-0", v1alpha1.LabelDrain("shops"): v1alpha1.DrainAsked,
		}}}
		document, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := jsonpatch.MergePatch(document, []byte(examples[1][1]))
		if err != nil {
			t.Fatal(err)
		}
		after := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(patched, &after); err != nil {
			t.Fatal(err)
		}
		if at, want := ring.PlacementOf("shops", after.Labels), (ring.Placement{Released: true}); at != want || after.Labels["app"] != "web" || after.ResourceVersion == "" {
			t.Errorf("the patch results in placement %+v, want %+v; labels %v, resourceVersion %q", at, want, after.Labels, after.ResourceVersion)
		}
	})
}

// checkStates compares each row of the table of states with StateOf.
func checkStates(t *testing.T, page string, lease *coordinationv1.Lease) {
	t.Helper()
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	for row, test := range map[string]struct {
		holders      []string
		above, until time.Duration
		state        v1alpha1.ShardState
	}{
		"| `Ready` | `NAME_…` | at most *D* |":                                      {[]string{"shops-0_a", "shops-0_"}, 0, duration, v1alpha1.ShardReady},
		"| `Expired` | `NAME_…` | at most twice *D* |":                              {[]string{"shops-0_a", "shops-0_"}, duration, 2 * duration, v1alpha1.ShardExpired},
		"| `Uncertain` | `NAME_…`, or `breakwater-sharder` | longer, or any time |": {[]string{"shops-0_a", "shops-0_", leaseholder.Revoked}, 2 * duration, time.Hour, v1alpha1.ShardUncertain},
		"| `Dead` | empty, or any other | at most 1 minute |":                       {[]string{"", "other"}, 0, time.Minute, v1alpha1.ShardDead},
		"| `Orphaned` | empty, or any other | longer | deletes the Lease |":         {[]string{"", "other"}, time.Minute, time.Hour, v1alpha1.ShardOrphaned},
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page does not have the row %q", row)
		}
		for _, holder := range test.holders {
			lease.Spec.HolderIdentity = &holder
			for _, unchanged := range []time.Duration{test.above + time.Millisecond, test.until} {
				if state := ring.StateOf(lease, unchanged); state != test.state {
					t.Errorf("StateOf() of holder %q, unchanged for %s = %s, want %s", holder, unchanged, state, test.state)
				}
			}
		}
	}
}
