package aggregator

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestExpect(t *testing.T) {
	set := func(uid types.UID) owner {
		return owner{apiVersion: "apps/v1", kind: "ReplicaSet", name: "set-" + string(uid), uid: uid}
	}
	web := owner{apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "d-web"}
	api := owner{apiVersion: "apps/v1", kind: "StatefulSet", name: "api", uid: "s-api"}
	there := func(workload owner, replicas int32) found { return found{workload: workload, replicas: replicas} }
	lost := func(workload owner, last int32) found { return found{workload: workload, replicas: last, gone: true} }
	retained := func(replicas int32) []v1alpha1.RetainedOwner {
		return []v1alpha1.RetainedOwner{{Kind: "Deployment", Name: "web", UID: "d-web", Replicas: replicas}}
	}
	for claim, c := range map[string]struct {
		owners map[owner]int32
		tops   map[owner]found
		stored []v1alpha1.RetainedOwner
		before int32
		policy v1alpha1.TargetRemovalPolicy
		want   expectation
		fails  string
	}{
		"no pods, nothing expected": {want: expectation{}},
		"a Deployment counts once, whatever ReplicaSets it has": {
			owners: map[owner]int32{set("a"): 7, set("b"): 4}, tops: map[owner]found{set("a"): there(web, 10), set("b"): there(web, 10)},
			want: expectation{replicas: 10},
		},
		"workloads add up": {
			owners: map[owner]int32{set("a"): 7, api: 3}, tops: map[owner]found{set("a"): there(web, 10), api: there(api, 3)},
			want: expectation{replicas: 13},
		},
		"a workload that is scaled to 0 expects none": {
			owners: map[owner]int32{set("a"): 7}, tops: map[owner]found{set("a"): there(web, 0)}, want: expectation{},
		},
		"one that is gone is still expected": {
			owners: map[owner]int32{set("a"): 7}, tops: map[owner]found{set("a"): lost(web, 10)}, want: expectation{10, retained(10)},
		},
		"also by a leader that has never seen it": {
			owners: map[owner]int32{set("a"): 7}, tops: map[owner]found{set("a"): lost(web, 0)}, stored: retained(10),
			want: expectation{10, retained(10)},
		},
		"at least its pods are": {
			owners: map[owner]int32{set("a"): 7, set("b"): 1}, tops: map[owner]found{set("a"): lost(web, 0), set("b"): lost(web, 0)},
			want: expectation{8, retained(8)},
		},
		"what went while nobody looked is what is left of all that was expected": {
			owners: map[owner]int32{set("a"): 7, api: 3}, tops: map[owner]found{set("a"): lost(web, 0), api: there(api, 4)}, before: 13,
			want: expectation{13, retained(9)},
		},
		"or its pods, when those are more": {
			owners: map[owner]int32{set("a"): 7, api: 3}, tops: map[owner]found{set("a"): lost(web, 0), api: there(api, 4)}, before: 5,
			want: expectation{11, retained(7)},
		},
		"not when the policy is to let go": {
			owners: map[owner]int32{set("a"): 7}, tops: map[owner]found{set("a"): lost(web, 10)}, stored: retained(10),
			policy: v1alpha1.TargetRemovalRelease, want: expectation{},
		},
		"what is gone is forgotten with its last pod": {
			owners: map[owner]int32{api: 3}, tops: map[owner]found{api: there(api, 3)}, stored: retained(10), want: expectation{replicas: 3},
		},
		"pods without an owner do not tell":       {owners: map[owner]int32{nobody(): 2, api: 3}, tops: map[owner]found{api: there(api, 3)}, fails: "2 pods have no controller"},
		"an owner that cannot be found out about": {owners: map[owner]int32{set("a"): 2}, fails: "no such answer"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := expect(c.owners, &v1alpha1.Aggregation{RetainedOwners: c.stored, ExpectedReplicas: &c.before}, c.policy, func(o owner) (found, error) {
				top, ok := c.tops[o]
				if !ok {
					return found{}, errors.New("no such answer")
				}
				return top, nil
			})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(expectation{})); diff != "" {
				t.Errorf("expectation (-want +got):\n%s", diff)
			}
		})
	}
}
