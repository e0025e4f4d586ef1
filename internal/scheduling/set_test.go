package scheduling_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// policyNames returns the names of policies, in their order.
func policyNames(policies []*scheduling.Policy) (names []string) {
	for _, p := range policies {
		names = append(names, p.String())
	}
	return names
}

func TestOrderIsIndependentOfInput(t *testing.T) {
	make := func(core, namespace, name string, priority int32, generation int64) *scheduling.Policy {
		return &scheduling.Policy{Ref: scheduling.Ref{Core: core, Namespace: namespace, Name: name}, Generation: generation,
			Spec: &v1alpha1.PodSchedulingPolicySpec{Priority: priority}}
	}
	want := []*scheduling.Policy{
		make("a", "", "z-high", 7, 1), make("a", "shop", "z", 1, 5), make("a", "", "a", 1, 1), make("b", "", "a", 1, 1), make("a", "", "b", 1, 1),
		make("a", "bar", "z", 0, 1), make("a", "shop", "a", 0, 1), make("a", "shop", "b", 0, 1), make("a", "", "c", 0, 1), make("a", "shop", "low", -1, 1),
	}
	old := []*scheduling.Policy{make("a", "shop", "z", 9, 3), make("a", "shop", "z", -9, 4)}
	rapid.Check(t, func(t *rapid.T) {
		got := scheduling.Order(rapid.Permutation(slices.Concat(want, old)).Draw(t, "order"))
		if !slices.Equal(got, want) {
			t.Fatalf("%v", policyNames(got))
		}
	})
}

func TestSetFor(t *testing.T) {
	protector := func(core, tier string) scheduling.Protector {
		return scheduling.Protector{Core: core, Name: "p", Labels: map[string]string{"tier": tier}}
	}
	deployment, job := schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "batch", Kind: "Job"}
	replicaSet := schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	const (
		adds        = `schedulerName: mine`
		templates   = `{targets: [PodTemplates], ` + adds + `}`
		owner       = `, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: u, controller: true}]`
		updateToo   = `{targets: [PodTemplates], templateUpdates: Inject, ` + adds + `}`
		allTargets  = `{targets: [Pods, PodTemplates], ` + adds + `}`
		ofProtected = `{protectorSelector: {matchLabels: {tier: a}}, ` + adds + `}`
		ofBoth      = `{podSelector: {matchLabels: {app: web}}, protectorSelector: {matchLabels: {tier: a}}, ` + adds + `}`
		ofOthers    = `{podSelector: {matchLabels: {app: api}}, protectorSelector: {matchLabels: {tier: a}}, ` + adds + `}`
	)
	for claim, test := range map[string]struct {
		name, policy string
		kind         schema.GroupKind
		update       bool
		metadata     string
		protectors   []scheduling.Protector
		want         bool
	}{
		"all pods":                       {"one", `{` + adds + `}`, podKind(), false, "", nil, true},
		"pods that are updated":          {"one", `{` + adds + `}`, podKind(), true, "", nil, false},
		"pods of a policy for templates": {"one", templates, podKind(), false, "", nil, false},
		"templates":                      {"one", templates, deployment, false, "", nil, true},
		"templates of a policy for pods": {"one", `{` + adds + `}`, deployment, false, "", nil, false},
		"templates of a policy for both": {"one", allTargets, deployment, false, "", nil, true},
		"pods of a policy for both":      {"one", allTargets, podKind(), false, "", nil, true},
		"templates that are updated":     {"one", templates, deployment, true, "", nil, false},
		"templates that are updated, with templateUpdates Inject": {"one", updateToo, deployment, true, "", nil, true},
		"templates of Jobs":                       {"one", updateToo, job, false, "", nil, true},
		"templates of Jobs that are updated":      {"one", updateToo, job, true, "", nil, false},
		"ReplicaSets":                             {"one", updateToo, replicaSet, false, "", nil, true},
		"ReplicaSets with a controller":           {"one", updateToo, replicaSet, false, owner, nil, false},
		"Deployments with a controller":           {"one", updateToo, deployment, false, owner, nil, true},
		"mirror pods":                             {"one", `{` + adds + `}`, podKind(), false, `, annotations: {kubernetes.io/config.mirror: x}`, nil, false},
		"pods of another namespace":               {"one", `{` + adds + `}`, podKind(), false, `, namespace: bar`, nil, false},
		"pods of all namespaces":                  {"all", `{` + adds + `}`, podKind(), false, `, namespace: bar`, nil, true},
		"pods of namespaces with labels":          {"all", `{namespaceSelector: {matchLabels: {env: prod}}, ` + adds + `}`, podKind(), false, "", nil, true},
		"pods of namespaces with other labels":    {"all", `{namespaceSelector: {matchLabels: {env: test}}, ` + adds + `}`, podKind(), false, "", nil, false},
		"pods with labels":                        {"one", `{podSelector: {matchLabels: {app: web}}, ` + adds + `}`, podKind(), false, "", nil, true},
		"pods with other labels":                  {"one", `{podSelector: {matchLabels: {app: api}}, ` + adds + `}`, podKind(), false, "", nil, false},
		"protected pods":                          {"one", ofProtected, podKind(), false, "", []scheduling.Protector{protector("core", "b"), protector("core", "a")}, true},
		"protected pods, by one of the cluster":   {"all", ofProtected, podKind(), false, "", []scheduling.Protector{protector("core", "a")}, true},
		"pods of other protectors":                {"one", ofProtected, podKind(), false, "", []scheduling.Protector{protector("core", "b")}, false},
		"pods of a protector in another core":     {"one", ofProtected, podKind(), false, "", []scheduling.Protector{protector("other", "a")}, false},
		"pods without a protector":                {"one", `{protectorSelector: {}, ` + adds + `}`, podKind(), false, "", nil, false},
		"pods of any protector":                   {"one", `{protectorSelector: {}, ` + adds + `}`, podKind(), false, "", []scheduling.Protector{protector("core", "b")}, true},
		"pods with labels that are protected":     {"one", ofBoth, podKind(), false, "", []scheduling.Protector{protector("core", "a")}, true},
		"pods with labels that are not protected": {"one", ofBoth, podKind(), false, "", nil, false},
		"protected pods with other labels":        {"one", ofOthers, podKind(), false, "", []scheduling.Protector{protector("core", "a")}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			spec := `{labels: {app: web}}, spec: {}}`
			text := `{metadata: {namespace: shop, labels: {app: web}` + test.metadata + `}, spec: {template: {metadata: ` + spec + `}}`
			if test.kind == podKind() {
				text = `{metadata: {labels: {app: web}` + test.metadata + `}, spec: {}}`
			}
			o := readObject(t, test.kind, test.update, jsonOf(t, text))
			if o.Namespace == "" {
				o.Namespace = "shop" // as in the request
			}
			policy := policyOf(t, test.name, test.policy)
			got := scheduling.NewSet([]*scheduling.Policy{policy}).For(o, map[string]string{"env": "prod"}, test.protectors)
			if (len(got) == 1) != test.want || policy.Applies(o, map[string]string{"env": "prod"}, test.protectors) != test.want {
				t.Errorf("got policies %v", policyNames(got))
			}
		})
	}
}

func TestPolicyWithoutSelectorsNeverApplies(t *testing.T) {
	none := &v1alpha1.PodSchedulingPolicy{}
	none.Name, none.Namespace = "none", "shop"
	nowhere := &v1alpha1.ClusterPodSchedulingPolicy{}
	nowhere.Name, nowhere.Spec.PodSelector = "nowhere", &v1alpha1.PodSelector{}
	var policies []*scheduling.Policy
	for _, object := range []interface {
		GetName() string
	}{none, nowhere} {
		var p *scheduling.Policy
		var err error
		switch o := object.(type) {
		case *v1alpha1.PodSchedulingPolicy:
			p, err = scheduling.Compile("core", o)
		case *v1alpha1.ClusterPodSchedulingPolicy:
			p, err = scheduling.Compile("core", o)
		}
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, p)
	}
	o := readObject(t, podKind(), false, pod(t, `{}`))
	if got := scheduling.NewSet(policies).For(o, nil, []scheduling.Protector{{Core: "core", Name: "p"}}); len(got) > 0 {
		t.Errorf("got policies %v", policyNames(got))
	}
}

func TestCompileRejectsMalformedSelectors(t *testing.T) {
	bad := &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "In"}}}
	for field, change := range map[string]func(*v1alpha1.ClusterPodSchedulingPolicySpec){
		"spec.podSelector":       func(s *v1alpha1.ClusterPodSchedulingPolicySpec) { s.PodSelector = bad },
		"spec.protectorSelector": func(s *v1alpha1.ClusterPodSchedulingPolicySpec) { s.ProtectorSelector = bad },
		"spec.namespaceSelector": func(s *v1alpha1.ClusterPodSchedulingPolicySpec) { s.NamespaceSelector = bad },
	} {
		policy := &v1alpha1.ClusterPodSchedulingPolicy{}
		change(&policy.Spec)
		if _, err := scheduling.Compile("core", policy); err == nil || err.Error()[:len(field)] != field {
			t.Errorf("%s: got error %v", field, err)
		}
	}
}

// The index finds the same policies as a scan of all policies, in the same order.
func TestSetMatchesScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selector := func(what string) string {
			return rapid.SampledFrom([]string{`{}`, `{matchLabels: {app: web}}`, `{matchLabels: {app: api}}`, `{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}`}).Draw(t, what)
		}
		var policies []*scheduling.Policy
		for i := range rapid.IntRange(0, 12).Draw(t, "policies") {
			name := rapid.SampledFrom([]string{"one", "all"}).Draw(t, "kind") + fmt.Sprint("-", i)
			spec := fmt.Sprintf("schedulerName: mine, priority: %d", rapid.IntRange(0, 2).Draw(t, "priority"))
			which := rapid.IntRange(1, 3).Draw(t, "selectors")
			if which&1 != 0 {
				spec += ", podSelector: " + selector("pods")
			}
			if which&2 != 0 {
				spec += ", protectorSelector: " + selector("protectors")
			}
			policies = append(policies, policyOf(t, name, "{"+spec+"}"))
		}
		var protectors []scheduling.Protector
		for i := range rapid.IntRange(0, 2).Draw(t, "protectors") {
			protectors = append(protectors, scheduling.Protector{Core: "core", Name: fmt.Sprint(i), Labels: map[string]string{"app": rapid.SampledFrom([]string{"web", "api"}).Draw(t, "label")}})
		}
		o := readObject(t, podKind(), false, pod(t, `{}`))
		var want []*scheduling.Policy
		for _, p := range scheduling.Order(policies) {
			if p.Applies(o, nil, protectors) {
				want = append(want, p)
			}
		}
		if got := scheduling.NewSet(policies).For(o, nil, protectors); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", policyNames(got), policyNames(want))
		}
	})
}
