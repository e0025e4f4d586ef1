package scheduling_test

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Keys and values of random requirements. If a node can satisfy such requirements at all, one of universe() does.
var (
	labelKeys   = []string{"k", "l"}
	labelValues = []string{"a", "b", "5", "07"}
	bounds      = []string{"0", "5", "6", "8", "9223372036854775807", "many"}
	nodeNames   = []string{"node-1", "node-2"}
)

// universe has a node for each way in which nodes can differ for random requirements.
func universe() (nodes []*corev1.Node) {
	values := []string{"none", "a", "b", "other"}
	for n := range 10 {
		values = append(values, fmt.Sprint(n), fmt.Sprintf("0%d", n))
	}
	for _, name := range append(nodeNames, "node-3") {
		for _, k := range values {
			for _, l := range values {
				node := &corev1.Node{}
				node.Name, node.Labels = name, map[string]string{"k": k, "l": l}
				for key, value := range node.Labels {
					if value == "none" {
						delete(node.Labels, key)
					}
				}
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// admission reports for each node whether the scheduler would place a pod there.
func admission(t testingT, nodes []*corev1.Node, raw []byte) []bool {
	t.Helper()
	typed := &corev1.Pod{}
	if err := json.Unmarshal(raw, typed); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(typed)
	admits := make([]bool, len(nodes))
	for i, node := range nodes {
		admits[i], _ = affinity.Match(node) // a malformed term matches no node
	}
	return admits
}

type object = map[string]any

func randomRequirement(t *rapid.T, pod bool) object {
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	r := object{"key": rapid.SampledFrom(labelKeys).Draw(t, "key"), "operator": rapid.SampledFrom(operators).Draw(t, "operator")}
	switch r["operator"] {
	case "In", "NotIn":
		r["values"] = rapid.SliceOfN(rapid.SampledFrom(labelValues), 1, 3).Draw(t, "values")
	case "Gt", "Lt":
		few := bounds
		if !pod {
			few = bounds[:4]
		}
		r["values"] = []string{rapid.SampledFrom(few).Draw(t, "bound")}
	}
	return r
}

func randomTerm(t *rapid.T, pod bool) object {
	least, term := 1, object{}
	if pod {
		least = 0
	}
	expressions := rapid.IntRange(0, 3).Draw(t, "expressions")
	names := rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "names")
	if expressions+names < least {
		expressions = least
	}
	var all []any
	for range expressions {
		all = append(all, randomRequirement(t, pod))
	}
	if all != nil {
		term["matchExpressions"] = all
	}
	all = nil
	for range names {
		all = append(all, object{"key": "metadata.name", "operator": rapid.SampledFrom([]string{"In", "NotIn"}).Draw(t, "operator"),
			"values": []string{rapid.SampledFrom(nodeNames).Draw(t, "name")}})
	}
	if all != nil {
		term["matchFields"] = all
	}
	return term
}

func randomTerms(t *rapid.T, pod bool) (terms []any) {
	for range rapid.IntRange(1, 3).Draw(t, "terms") {
		terms = append(terms, randomTerm(t, pod))
	}
	return terms
}

func maybe(t *rapid.T, what string, spec object, field string, value func() any) {
	if rapid.Bool().Draw(t, what+" "+field) {
		spec[field] = value()
	}
}

// randomNodes returns a nodeSelector and required node affinity, one of them, or neither.
func randomNodes(t *rapid.T, pod bool) object {
	spec := object{}
	maybe(t, "nodes", spec, "nodeSelector", func() any {
		return rapid.MapOfN(rapid.SampledFrom(labelKeys), rapid.SampledFrom(labelValues), 1, 2).Draw(t, "nodeSelector")
	})
	maybe(t, "nodes", spec, "affinity", func() any {
		return object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": randomTerms(t, pod)}}}
	})
	return spec
}

// randomSpec returns the relevant fields of a pod's spec, or of a policy's.
func randomSpec(t *rapid.T, pod bool) object {
	spec := randomNodes(t, pod)
	if !pod && len(spec) == 0 {
		maybe(t, "spec", spec, "nodeName", func() any { return rapid.SampledFrom(nodeNames).Draw(t, "nodeName") })
	}
	if pod && rapid.IntRange(0, 5).Draw(t, "placed") == 0 {
		spec["nodeName"] = rapid.SampledFrom(nodeNames).Draw(t, "nodeName")
	}
	maybe(t, "spec", spec, "schedulerName", func() any {
		return rapid.SampledFrom([]string{"default-scheduler", "one", "two"}).Draw(t, "schedulerName")
	})
	maybe(t, "spec", spec, "tolerations", func() any { return randomTolerations(t) })
	maybe(t, "spec", spec, "topologySpreadConstraints", func() any { return randomSpread(t) })
	if rapid.Bool().Draw(t, "more affinity") {
		affinity, _ := spec["affinity"].(object)
		if affinity == nil {
			affinity = object{}
		}
		spec["affinity"] = affinity
		maybe(t, "affinity", affinity, "podAntiAffinity", func() any { return randomPods(t) })
		maybe(t, "affinity", affinity, "podAffinity", func() any { return randomPods(t) })
		if nodes, ok := affinity["nodeAffinity"].(object); ok {
			maybe(t, "affinity", nodes, "preferredDuringSchedulingIgnoredDuringExecution", func() any {
				return []any{object{"weight": rapid.IntRange(1, 2).Draw(t, "weight"), "preference": randomTerm(t, pod)}}
			})
		}
	}
	return spec
}

func randomTolerations(t *rapid.T) (all []any) {
	for range rapid.IntRange(1, 3).Draw(t, "tolerations") {
		toleration := object{"key": rapid.SampledFrom(labelKeys).Draw(t, "key"), "effect": "NoExecute"}
		maybe(t, "toleration", toleration, "operator", func() any { return rapid.SampledFrom([]string{"Exists", "Equal"}).Draw(t, "operator") })
		maybe(t, "toleration", toleration, "tolerationSeconds", func() any { return rapid.IntRange(0, 1).Draw(t, "seconds") })
		all = append(all, toleration)
	}
	return all
}

func randomSpread(t *rapid.T) (all []any) {
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "z"}), 1, 2, rapid.ID).Draw(t, "topologyKeys") {
		constraint := object{"topologyKey": key, "maxSkew": rapid.IntRange(1, 2).Draw(t, "maxSkew"),
			"whenUnsatisfiable": rapid.SampledFrom([]string{"DoNotSchedule", "ScheduleAnyway"}).Draw(t, "whenUnsatisfiable")}
		maybe(t, "constraint", constraint, "labelSelector", func() any { return object{"matchLabels": object{"app": "web"}} })
		all = append(all, constraint)
	}
	return all
}

func randomPods(t *rapid.T) object {
	term := func() any { return object{"topologyKey": rapid.SampledFrom([]string{"x", "z"}).Draw(t, "topologyKey")} }
	pods := object{"requiredDuringSchedulingIgnoredDuringExecution": []any{term()}}
	maybe(t, "pods", pods, "preferredDuringSchedulingIgnoredDuringExecution", func() any {
		return []any{object{"weight": 3, "podAffinityTerm": term()}}
	})
	return pods
}

func written(t testingT, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// randomPolicies returns some policies of both kinds, in their order.
func randomPolicies(t *rapid.T) []*scheduling.Policy {
	var policies []*scheduling.Policy
	for _, name := range []string{"one", "two", "all", "all-others"}[:rapid.IntRange(1, 4).Draw(t, "policies")] {
		spec := randomSpec(t, false)
		spec["priority"] = rapid.IntRange(0, 2).Draw(t, "priority")
		policies = append(policies, policyOf(t, name, written(t, spec)))
	}
	return scheduling.Order(policies)
}
