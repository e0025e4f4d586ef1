package scheduling_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Among all nodes that the requirements can distinguish, a pod can run exactly where it could before and the policy allows it. Every
// reported conflict is a conflict.
func TestMergedPodFitsIntersectionOfNodes(t *testing.T) {
	nodes := universe()
	rapid.Check(t, func(t *rapid.T) {
		own, wanted := randomNodes(t, true), randomNodes(t, false)
		if rapid.Bool().Draw(t, "one field") {
			delete(wanted, "nodeSelector")
		}
		before := pod(t, written(t, own))
		after, result := mergePolicies(t, podKind(), before, []*scheduling.Policy{policyOf(t, "one", written(t, wanted))})
		has, asks, gets := admission(t, nodes, before), admission(t, nodes, pod(t, written(t, wanted))), admission(t, nodes, after)
		conflict := len(conflicts(result)) > 0
		common := false
		for i, node := range nodes {
			common = common || has[i] && asks[i]
			if want := has[i] && asks[i]; !conflict && gets[i] != want || gets[i] && !has[i] {
				t.Fatalf("node %s %v: pod %v, policy %v, merged %v (conflicts in %v)\n%s", node.Name, node.Labels, has[i], asks[i], gets[i], conflicts(result), after)
			}
		}
		if conflict && common {
			t.Fatalf("got conflicts in %v, but a node satisfies both", conflicts(result))
		}
		if slices.Contains(has, true) && !slices.Contains(gets, true) {
			t.Fatalf("merged pod fits no node: %s", after)
		}
	})
}

// The test merges any number of policies with all possible fields.
func TestManyPoliciesAreAllEnforced(t *testing.T) {
	nodes := universe()
	protector := scheduling.Protector{Core: "core", Name: "web", Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "shop"}}}
	rapid.Check(t, func(t *rapid.T) {
		policies := randomPolicies(t)
		before := pod(t, written(t, randomSpec(t, true)))
		after, result := mergePolicies(t, podKind(), before, policies, protector)
		has, gets := admission(t, nodes, before), admission(t, nodes, after)
		for i := range nodes {
			if gets[i] && !has[i] {
				t.Fatalf("merged pod fits a node that the original did not: %s", after)
			}
		}
		if slices.Contains(has, true) && !slices.Contains(gets, true) {
			t.Fatalf("merged pod fits no node: %s", after)
		}
		for _, outcome := range result.Outcomes {
			if strings.Contains(strings.Join(conflicts(scheduling.Result{Outcomes: []scheduling.Outcome{outcome}}), " "), "node") {
				continue
			}
			asks := admission(t, nodes, pod(t, written(t, outcome.Spec.SchedulingCriteria)))
			for i := range nodes {
				if gets[i] && !asks[i] {
					t.Fatalf("policy %s has no conflict, but the merged pod fits a node that it excludes: %s", outcome.Policy, after)
				}
			}
		}
		if (result.Patch == nil) == slices.ContainsFunc(result.Outcomes, func(o scheduling.Outcome) bool { return len(o.Injected) > 0 }) {
			t.Fatalf("patch %s of %+v", result.Patch, result.Outcomes)
		}
	})
}

func TestMergeIsIdempotent(t *testing.T) {
	protector := scheduling.Protector{Core: "core", Name: "web", Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "shop"}}}
	rapid.Check(t, func(t *rapid.T) {
		policies := randomPolicies(t)
		once, first := mergePolicies(t, podKind(), pod(t, written(t, randomSpec(t, true))), policies, protector)
		twice, second := mergePolicies(t, podKind(), once, policies, protector)
		if second.Patch != nil || !slices.Equal(conflicts(first), conflicts(second)) {
			t.Fatalf("%s\nbecame %s on the second merge, with conflicts in %v and then %v", once, twice, conflicts(first), conflicts(second))
		}
		// Another client adds fields of its own in between.
		between, _ := mergePolicies(t, podKind(), once, randomPolicies(t), protector)
		after, _ := mergePolicies(t, podKind(), between, policies, protector)
		if _, last := mergePolicies(t, podKind(), after, policies, protector); last.Patch != nil {
			t.Fatalf("after a change by another client, %s is still changed: %s", after, last.Patch)
		}
	})
}

// allowed matches the paths that a patch may change.
var allowed = regexp.MustCompile(`^/spec/(schedulerName|nodeName|nodeSelector|nodeSelector/[kl]|tolerations|tolerations/-|topologySpreadConstraints|topologySpreadConstraints/-|` +
	`affinity|affinity/nodeAffinity|affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution(/nodeSelectorTerms)?|` +
	`affinity/pod(Anti)?Affinity|affinity/(node|pod|podAnti)Affinity/(preferred|required)DuringSchedulingIgnoredDuringExecution(/-)?)$`)

func TestMergePreservesUnknownFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := randomSpec(t, true)
		spec["containers"] = []any{object{"name": "c", "env": []any{object{"name": "n", "value": "v"}}}}
		before := valueOf(t, pod(t, written(t, spec)))
		addUnknownFields(t, before)
		raw := []byte(written(t, before))
		got, result := mergePolicies(t, podKind(), raw, randomPolicies(t))
		after := valueOf(t, got)
		var patch []struct{ Op, Path string }
		if result.Patch != nil {
			if err := json.Unmarshal(result.Patch, &patch); err != nil {
				t.Fatal(err)
			}
		}
		for _, change := range patch {
			if !allowed.MatchString(change.Path) || change.Op == "remove" {
				t.Fatalf("operation %s on %s is not allowed", change.Op, change.Path)
			}
			there := strings.HasSuffix(change.Path, "/-") || valueAt(before, change.Path) == nil
			if there != (change.Op == "add") {
				t.Fatalf("operation %s on %s, whose value is %v", change.Op, change.Path, valueAt(before, change.Path))
			}
		}
		if lost := firstMissing("", before, after); lost != "" {
			t.Fatalf("%s was lost\n%s\nbecame %s by %s", lost, raw, got, result.Patch)
		}
	})
}

// addUnknownFields puts unknown fields into all objects that can have them.
func addUnknownFields(t *rapid.T, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, each := range v {
			if name != "nodeSelector" && name != "labels" && name != "matchLabels" {
				addUnknownFields(t, each)
			}
		}
		if len(v) > 0 && rapid.Bool().Draw(t, "sprinkled") {
			v["unheardOf"] = rapid.SampledFrom([]any{"x", 1.5, true, []any{"y"}, object{"z": object{}}}).Draw(t, "unheard of")
		}
	case []any:
		for _, each := range v {
			addUnknownFields(t, each)
		}
	}
}

// firstMissing returns a part of before that after lacks: arrays may only grow, and terms of required node affinity have at least the
// pod's requirements.
func firstMissing(at string, before, after any) string {
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for name, each := range b {
			if lost := firstMissing(at+"/"+name, each, a[name]); lost != "" {
				return lost
			}
		}
	case []any:
		a, _ := after.([]any)
		if strings.HasSuffix(at, "/nodeSelectorTerms") {
			for _, term := range a {
				if !slices.ContainsFunc(b, func(had any) bool { return includesAll(term, had) }) {
					return at
				}
			}
			return ""
		}
		if len(a) < len(b) || !reflect.DeepEqual(b, a[:len(b)]) {
			return at
		}
	default:
		if at != "/spec/schedulerName" && !reflect.DeepEqual(before, after) {
			return at
		}
	}
	return ""
}

// includesAll reports whether a term has everything that another has.
func includesAll(term, had any) bool {
	for name, value := range had.(map[string]any) {
		list, isList := value.([]any)
		if name == "unheardOf" || !isList {
			if !reflect.DeepEqual(value, term.(map[string]any)[name]) {
				return false
			}
			continue
		}
		now, _ := term.(map[string]any)[name].([]any)
		for _, each := range list {
			if !slices.ContainsFunc(now, func(n any) bool { return sameRequirement(each, n) }) {
				return false
			}
		}
	}
	return true
}

// sameRequirement reports whether two requirements are equivalent, regardless of the order of values.
func sameRequirement(a, b any) bool {
	one, other := a.(map[string]any), b.(map[string]any)
	for name := range one {
		if name != "values" && !reflect.DeepEqual(one[name], other[name]) {
			return false
		}
	}
	for name := range other {
		if _, ok := one[name]; !ok {
			return false
		}
	}
	has, _ := one["values"].([]any)
	now, _ := other["values"].([]any)
	inside := func(all []any) func(any) bool {
		return func(v any) bool { return !slices.Contains(all, v) }
	}
	return !slices.ContainsFunc(has, inside(now)) && !slices.ContainsFunc(now, inside(has))
}

func valueAt(value any, path string) any {
	for _, step := range strings.Split(path, "/")[1:] {
		of, _ := value.(map[string]any)
		value = of[step]
	}
	return value
}
