package shape_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// The rules return the same messages as a real API server: every one, and no others.
func TestCheckMatchesAPIServer(t *testing.T) {
	namespace, c := testplane.Namespace(t), testplane.Client(t)
	for _, d := range definitions(t) {
		rules, err := d.Rules()
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range map[string][]string{
			"PodProtector": {
				`{selector: {}, minAvailable: 1}`, `{}`, `{selector: {}}`, `{minAvailable: 1}`,
				`{selector: {}, minAvailable: 1, maxUnavailable: 1}`, `{selector: {}, minAvailable: -1}`, `{selector: {}, minAvailable: "101%"}`,
				`{selector: {matchLabels: {"a b": c}}, minAvailable: 1}`, `{selector: {matchLabels: {a: "b c"}}, minAvailable: 1}`,
				`{selector: {matchExpressions: [{key: a, operator: In}, {key: "", operator: Maybe}]}, minAvailable: 1}`,
				`{selector: {}, minAvailable: 1, operations: [], criterion: None, minReadySeconds: -1}`,
				`{selector: {}, minAvailable: 1, operations: [Delete, Delete]}`,
				`{targetRef: {apiVersion: "", kind: deployment, name: ""}, minAvailable: 1, aggregationSelector: {}}`,
				`{selector: {}, minAvailable: 1, admissionHistory: {compactThreshold: 1001, updateTimeoutSeconds: 1}}`,
			},
			"ProtectionPolicy": {
				`{}`, `{floor: {}}`, `{floor: {fromStrategy: {}, minAvailable: 1}}`, `{priority: 1000001}`,
				`{floor: {bands: [{minAvailable: 1}, {minAvailable: 1}]}}`, `{floor: {bands: [{upToReplicas: 1}]}}`,
				`{workloads: {kinds: []}}`, `{workloads: {kinds: [{apiVersion: apps/v1, kind: A}, {apiVersion: apps/v2, kind: A}]}}`,
				`{workloads: {kinds: [{apiVersion: apps/v1, kind: A, templatePath: "a..b"}]}}`,
			},
			"ClusterProtectionPolicy": {`{namespaceSelector: {}}`, `{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`},
			"Cell": {
				`{}`, `{namespaces: []}`, `{namespaces: [A]}`, `{namespaces: [a], podSelector: {}}`, `{admissionDeadline: 1s}`,
				`{admissionDeadline: 1d, staleAfter: "x"}`, `{kubeconfigSecretRef: {}}`, `{settlement: Guess, whenStale: Never}`,
			},
			"ClusterRing": {
				`{}`, `{resources: []}`, `{resources: [{}, {}]}`, `{resources: [{group: apps}, {group: apps, resource: deployments}]}`,
				`{resources: [{resource: pods}, {group: "", resource: pods}, {resource: pods, controlledResources: [{resource: a}, {resource: a}]}]}`,
				`{resources: [{resource: pods, controlledResources: [{resource: pods}, {resource: events}]}, {resource: "*"}, {group: "*", resource: a}]}`,
				`{resources: [{group: coordination.k8s.io, resource: leases}, {group: breakwater.dev, resource: clusterrings}, {resource: pods/status}]}`,
				`{keyPolicy: Guess, shardNamespace: "", tokensPerShard: 0, maxLoadPercent: 100, leaseDurationSeconds: 1}`,
				`{drainTimeoutSeconds: 86401, resyncPeriodSeconds: 9, maxConcurrentMoves: 10001, shardNamespace: A}`,
				`{namespaceSelector: {matchLabels: {"a b": c}, matchExpressions: [{key: a, operator: In}]}}`,
			},
		}[d.Kind.Kind] {
			t.Run(d.Kind.Kind+" "+spec, func(t *testing.T) {
				raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, "{apiVersion: %s, kind: %s, spec: %s}", d.Kind.GroupVersion(), d.Kind.Kind, spec))
				if err != nil {
					t.Fatal(err)
				}
				u := &unstructured.Unstructured{}
				if err := u.UnmarshalJSON(raw); err != nil {
					t.Fatal(err)
				}
				u.SetName("it")
				if d.Namespaced {
					u.SetNamespace(namespace)
				}
				got := messages(rules.Check(t.Context(), u.Object, nil, nil))
				want := apiServerMessages(t, c.Create(t.Context(), u, client.DryRunAll))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the apiserver's complaints are not ours (-apiserver +ours):\n%s", diff)
				}
			})
		}
	}
}

func messages(broken field.ErrorList) []string {
	var all []string
	for _, e := range broken {
		all = append(all, strings.TrimPrefix(e.Field, "<nil>")+" "+e.ErrorBody())
	}
	slices.Sort(all)
	return all
}

func apiServerMessages(t *testing.T, err error) []string {
	t.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &status) || status.Status().Details == nil:
		t.Fatal(err)
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue // a note on the other causes
		}
		all = append(all, strings.TrimPrefix(cause.Field, "<nil>")+" "+cause.Message)
	}
	slices.Sort(all)
	return all
}

// TestCheckRejectsForbiddenUpdates checks the rules that compare an object with its previous state.
func TestCheckRejectsForbiddenUpdates(t *testing.T) {
	rules, err := definition(t, "Cell").Rules()
	if err != nil {
		t.Fatal(err)
	}
	cell := func(namespaces ...any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "it"}, "spec": map[string]any{"namespaces": namespaces}}
	}
	if got := messages(rules.Check(context.Background(), cell("a", "b"), cell("a"), nil)); len(got) != 1 || !strings.Contains(got[0], "namespaces cannot be changed") {
		t.Errorf("said %q", got)
	}
	if got := messages(rules.Check(context.Background(), cell("a"), cell("a"), nil)); len(got) != 0 {
		t.Errorf("said %q of no change", got)
	}
}

// Check skips only the rules that depend on unknown values.
func TestCheckSkipsUnknownValues(t *testing.T) {
	resources := func(all ...any) map[string]any { return map[string]any{"resources": all} }
	named := func(name string) map[string]any { return map[string]any{"resource": name} }
	for claim, test := range map[string]struct {
		kind    string
		spec    map[string]any
		unknown []shape.Path
		want    int
	}{
		"an unknown floor":                 {"PodProtector", map[string]any{"selector": map[string]any{}}, []shape.Path{{"spec", "minAvailable"}}, 0},
		"an unknown selector":              {"PodProtector", map[string]any{"minAvailable": int64(1)}, []shape.Path{{"spec", "selector"}}, 0},
		"an unknown value, a bad operator": {"PodProtector", selectorWith(map[string]any{"key": "a", "operator": "Maybe"}), []shape.Path{{"spec", "selector", "matchExpressions", "[0]", "values"}}, 1},
		"an unknown key":                   {"PodProtector", selectorWith(map[string]any{"operator": "Exists"}), []shape.Path{{"spec", "selector", "matchExpressions", "[0]", "key"}}, 0},
		"a missing key beside it":          {"PodProtector", selectorWith(map[string]any{"operator": "Exists"}), []shape.Path{{"spec", "expectedReplicas"}}, 1},
		"two unknown resources": {"ClusterRing", resources(map[string]any{}, map[string]any{}),
			[]shape.Path{{"spec", "resources", "[0]", "resource"}, {"spec", "resources", "[1]", "resource"}}, 0},
		"one of an unknown group":          {"ClusterRing", resources(named("pods"), named("pods")), []shape.Path{{"spec", "resources", "[0]", "group"}}, 0},
		"one resource twice":               {"ClusterRing", resources(named("pods"), named("pods")), nil, 1},
		"one resource twice, and a number": {"ClusterRing", resources(named("pods"), named("pods")), []shape.Path{{"spec", "maxLoadPercent"}}, 1},
		"one twice, and what it controls": {"ClusterRing", resources(map[string]any{"resource": "pods", "controlledResources": []any{map[string]any{}}}, named("pods")),
			[]shape.Path{{"spec", "resources", "[0]", "controlledResources", "[0]", "resource"}}, 1},
		"two unknown ones that are controlled": {"ClusterRing", resources(map[string]any{"resource": "pods", "controlledResources": []any{map[string]any{}, map[string]any{}}}),
			[]shape.Path{{"spec", "resources", "[0]", "controlledResources", "[0]", "resource"}, {"spec", "resources", "[0]", "controlledResources", "[1]", "resource"}}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			rules, err := definition(t, test.kind).Rules()
			if err != nil {
				t.Fatal(err)
			}
			object := map[string]any{"metadata": map[string]any{"name": "it"}, "spec": test.spec}
			if got := rules.Check(context.Background(), object, nil, test.unknown); len(got) != test.want {
				t.Errorf("said %v, want %d complaints", fmt.Sprint(got), test.want)
			}
		})
	}
}

func selectorWith(expression map[string]any) map[string]any {
	return map[string]any{"minAvailable": int64(1), "selector": map[string]any{"matchExpressions": []any{expression}}}
}
