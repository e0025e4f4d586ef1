package scheduling_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

func TestMergeSeveralPolicies(t *testing.T) {
	for claim, test := range map[string]struct {
		pod       string
		policies  []string
		want      string
		conflicts []string
		why       string
	}{
		"the first scheduler":                        {`{}`, []string{`{schedulerName: one}`, `{schedulerName: two}`}, `{schedulerName: one}`, []string{"schedulerName"}, "PodSchedulingPolicy shop/one takes precedence"},
		"the default as the first scheduler":         {`{}`, []string{`{schedulerName: default-scheduler}`, `{schedulerName: two}`}, `{schedulerName: default-scheduler}`, []string{"schedulerName"}, "PodSchedulingPolicy shop/one takes precedence"},
		"the default as it was filled in, and first": {`{schedulerName: default-scheduler}`, []string{`{schedulerName: default-scheduler}`, `{schedulerName: two}`}, `{schedulerName: default-scheduler}`, []string{"schedulerName"}, "PodSchedulingPolicy shop/one takes precedence"},
		"the first label":                            {`{}`, []string{`{nodeSelector: {a: "1"}}`, `{nodeSelector: {a: "2", b: x}}`}, `{nodeSelector: {a: "1", b: x}}`, []string{"nodeSelector[a]"}, "PodSchedulingPolicy shop/one takes precedence"},
		"labels, after which nodeName conflicts":     {`{}`, []string{`{nodeSelector: {a: "1"}}`, `{nodeName: node-1}`}, `{nodeSelector: {a: "1"}}`, []string{"nodeName"}, "which enforces it"},
		"nodeName, after which labels conflict":      {`{}`, []string{`{nodeName: node-1}`, `{nodeSelector: {a: "1"}}`}, `{nodeName: node-1}`, []string{"nodeSelector[a]"}, "the kubelet rejects"},
		"terms of all, the last one's first":         {`{` + requiredNodeTerms(a) + `}`, []string{`{` + requiredNodeTerms(b) + `}`, `{` + requiredNodeTerms(c) + `}`}, `{` + requiredNodeTerms(c+","+b+","+a) + `}`, nil, ""},
		"terms that contradict those of the second":  {`{}`, []string{`{` + requiredNodeTerms(d) + `}`, `{` + requiredNodeTerms(`{key: d, operator: DoesNotExist}`) + `}`}, `{` + requiredNodeTerms(d) + `}`, []string{required}, "no node can satisfy both"},
		"a label that a term before excludes":        {`{}`, []string{`{` + requiredNodeTerms(d) + `}`, `{nodeSelector: {d: x}}`}, `{` + requiredNodeTerms(d) + `}`, []string{"nodeSelector[d]"}, "no term of the required node affinity is compatible with it"},
		"the first constraint":                       {`{}`, []string{`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, `{topologySpreadConstraints: [{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`}, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, []string{"topologySpreadConstraints[z,DoNotSchedule]"}, "PodSchedulingPolicy shop/one takes precedence"},
	} {
		t.Run(claim, func(t *testing.T) {
			policies := []*scheduling.Policy{policyOf(t, "one", test.policies[0]), policyOf(t, "two", test.policies[1])}
			got, result := mergePolicies(t, podKind(), pod(t, test.pod), policies)
			if diff := cmp.Diff(valueOf(t, pod(t, test.want)), valueOf(t, got)); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
			if in := conflicts(result); !slices.Equal(in, test.conflicts) {
				t.Errorf("got conflicts in %v, want %v", in, test.conflicts)
			}
			for _, clash := range result.Outcomes[1].Conflicts {
				if test.why == "" || !strings.Contains(clash.String(), test.why) {
					t.Errorf("got %s, want %q", clash, test.why)
				}
			}
			if _, again := mergePolicies(t, podKind(), got, policies); again.Patch != nil {
				t.Errorf("second merge changed the object: %s", again.Patch)
			}
		})
	}
}

// alternatives formats n alternatives for a label.
func alternatives(n int, key string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{key: %s, operator: In, values: [v%d]}`, key, i))
	}
	return requiredNodeTerms(all...)
}

func TestTermsAreBounded(t *testing.T) {
	for claim, test := range map[string]struct {
		own, wanted int
		conflict    bool
	}{
		"the maximum number":        {10, 10, false},
		"one more than the maximum": {101, 1, true},
		"a large product":           {11, 10, true},
		"only terms of the pod":     {100, 1, false},
	} {
		t.Run(claim, func(t *testing.T) {
			got, result := mergePolicies(t, podKind(), pod(t, `{`+alternatives(test.own, "a")+`}`), []*scheduling.Policy{policyOf(t, "one", `{`+alternatives(test.wanted, "b")+`}`)})
			if (len(conflicts(result)) > 0) != test.conflict {
				t.Errorf("got conflicts in %v: %.300s", conflicts(result), got)
			}
			if want := test.own * test.wanted; !test.conflict && strings.Count(string(got), `"b"`) != want {
				t.Errorf("got %d terms, want %d", strings.Count(string(got), `"b"`), want)
			}
		})
	}
}

// The second policy drops so many terms that the first one's fit.
func TestEarlierPolicyIsRetriedAfterLaterOne(t *testing.T) {
	policies := []*scheduling.Policy{policyOf(t, "one", `{`+alternatives(3, "b")+`}`), policyOf(t, "two", `{`+requiredNodeTerms(`{key: a, operator: In, values: [v0, v1]}`)+`}`)}
	got, result := mergePolicies(t, podKind(), pod(t, `{`+alternatives(50, "a")+`}`), policies)
	if in := conflicts(result); in != nil || strings.Count(string(got), `"b"`) != 6 {
		t.Errorf("got conflicts in %v: %s", in, got)
	}
	if _, again := mergePolicies(t, podKind(), got, policies); again.Patch != nil {
		t.Errorf("second merge changed the object: %s", again.Patch)
	}
}

func TestConstraintSelectorComesFromProtector(t *testing.T) {
	web := &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	protector := func(core, name, tier string, selector *v1alpha1.PodSelector) scheduling.Protector {
		return scheduling.Protector{Core: core, Name: name, Labels: map[string]string{"tier": tier}, Selector: selector}
	}
	const constraint = `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule`
	for claim, test := range map[string]struct {
		policy     string
		protectors []scheduling.Protector
		want       string
	}{
		"none":                                  {`{` + constraint + `}]}`, nil, `{}`},
		"one":                                   {`{` + constraint + `}]}`, []scheduling.Protector{protector("core", "p", "", web)}, `{` + constraint + `, labelSelector: {matchLabels: {app: web}}}]}`},
		"one of all pods":                       {`{` + constraint + `}]}`, []scheduling.Protector{protector("core", "p", "", &v1alpha1.PodSelector{})}, `{` + constraint + `, labelSelector: {}}]}`},
		"the first":                             {`{` + constraint + `}]}`, []scheduling.Protector{protector("core", "q", "", &v1alpha1.PodSelector{}), protector("core", "p", "", web)}, `{` + constraint + `, labelSelector: {matchLabels: {app: web}}}]}`},
		"the one that is selected":              {`{protectorSelector: {matchLabels: {tier: b}}, ` + constraint + `}]}`, []scheduling.Protector{protector("core", "p", "a", &v1alpha1.PodSelector{}), protector("core", "q", "b", web)}, `{` + constraint + `, labelSelector: {matchLabels: {app: web}}}]}`},
		"a protector whose selector is unknown": {`{` + constraint + `}]}`, []scheduling.Protector{protector("core", "p", "", nil)}, `{}`},
		"one of another core cluster":           {`{` + constraint + `}]}`, []scheduling.Protector{protector("other", "p", "", web)}, `{}`},
		"one in place of an empty selector":     {`{` + constraint + `, labelSelector: {}}]}`, []scheduling.Protector{protector("core", "p", "", web)}, `{` + constraint + `, labelSelector: {matchLabels: {app: web}}}]}`},
		"no protector for an empty selector":    {`{` + constraint + `, labelSelector: {}}]}`, nil, `{` + constraint + `, labelSelector: {}}]}`},
		"not if the constraint has a selector":  {`{` + constraint + `, labelSelector: {matchLabels: {a: b}}}]}`, []scheduling.Protector{protector("core", "p", "", web)}, `{` + constraint + `, labelSelector: {matchLabels: {a: b}}}]}`},
		"not with a selector of the same key as matchLabelKeys":    {`{` + constraint + `, matchLabelKeys: [app]}]}`, []scheduling.Protector{protector("core", "p", "", web)}, `{}`},
		"not with an expression of the same key as matchLabelKeys": {`{` + constraint + `, matchLabelKeys: [app]}]}`, []scheduling.Protector{protector("core", "p", "", &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "Exists"}}})}, `{}`},
		"a selector with other keys than matchLabelKeys":           {`{` + constraint + `, matchLabelKeys: [hash]}]}`, []scheduling.Protector{protector("core", "p", "", web)}, `{` + constraint + `, matchLabelKeys: [hash], labelSelector: {matchLabels: {app: web}}}]}`},
	} {
		t.Run(claim, func(t *testing.T) {
			got, result := mergePolicies(t, podKind(), pod(t, `{}`), []*scheduling.Policy{policyOf(t, "one", test.policy)}, test.protectors...)
			if diff := cmp.Diff(valueOf(t, pod(t, test.want)), valueOf(t, got)); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
			if told := len(result.Outcomes[0].Skipped) == 1; told != (test.want == `{}`) || len(conflicts(result)) > 0 {
				t.Errorf("%+v", result.Outcomes[0])
			}
		})
	}
}

func TestConflictRejectsPod(t *testing.T) {
	own := pod(t, `{nodeSelector: {disk: hdd}, schedulerName: its}`)
	reject, keep := `conflictPolicy: Reject, `, ``
	policy := func(conflictPolicy string) string { return `{` + conflictPolicy + `nodeSelector: {disk: ssd, a: b}}` }
	_, result := mergePolicies(t, podKind(), own, []*scheduling.Policy{policyOf(t, "one", policy(reject)), policyOf(t, "all", `{schedulerName: mine}`)})
	if result.Patch != nil {
		t.Errorf("got patch %s, want none", result.Patch)
	}
	const want = `nodeSelector[disk] of /spec contradicts PodSchedulingPolicy shop/one: the object has "hdd", the policy sets "ssd" (the object keeps its own value). Remove the field from the Pod or set it to the value of the policy; or set conflictPolicy of the policy to KeepExisting, or exclude the pods from its selectors.`
	if result.Denial != want {
		t.Errorf("got %s\nwant %s", result.Denial, want)
	}
	if _, result := mergePolicies(t, podKind(), own, []*scheduling.Policy{policyOf(t, "one", policy(keep))}); result.Denial != "" || result.Patch == nil {
		t.Errorf("got %s and patch %s", result.Denial, result.Patch)
	}
	if _, result := mergePolicies(t, podKind(), pod(t, `{}`), []*scheduling.Policy{policyOf(t, "one", policy(reject))}); result.Denial != "" || result.Patch == nil {
		t.Errorf("without a conflict: got %s and patch %s", result.Denial, result.Patch)
	}
	many := policyOf(t, "one", `{conflictPolicy: Reject, nodeSelector: {a: x, b: x, c: x, d: x, e: x, f: x, g: x}}`)
	_, result = mergePolicies(t, podKind(), pod(t, `{nodeSelector: {a: b, b: b, c: b, d: b, e: b, f: b, g: b}}`), []*scheduling.Policy{many})
	if !strings.Contains(result.Denial, "; and 2 more. Remove") {
		t.Errorf("%s", result.Denial)
	}
	if _, result = mergePolicies(t, podKind(), pod(t, `{`+alternatives(50, "a")+`}`), []*scheduling.Policy{policyOf(t, "one", `{conflictPolicy: Reject, `+alternatives(3, "b")+`}`)}); len(result.Denial) > 1000 || !strings.Contains(result.Denial, "more than 100 terms") {
		t.Errorf("%s", result.Denial)
	}
}

func TestOutcomesListInjectedFields(t *testing.T) {
	policies := []*scheduling.Policy{policyOf(t, "one", deepPolicy), policyOf(t, "two", `{tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}], schedulerName: its}`)}
	_, result := mergePolicies(t, podKind(), pod(t, `{}`), policies)
	const nodes, apart = "affinity.nodeAffinity.", "affinity.podAntiAffinity."
	const must, should = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	for i, want := range [][]string{
		{"schedulerName", "nodeSelector[a]", nodes + should, apart + must, apart + should, "tolerations", "topologySpreadConstraints[z,DoNotSchedule]", "topologySpreadConstraints[z,ScheduleAnyway]"},
		{"tolerations"},
	} {
		if got := result.Outcomes[i].Injected; !slices.Equal(got, want) {
			t.Errorf("policy %s added to %v, want %v", policies[i], got, want)
		}
	}
	if in := conflicts(result); !slices.Equal(in, []string{nodes + must, "schedulerName"}) {
		t.Errorf("got conflicts in %v", in)
	}
}

func TestLongValueIsTruncatedAtRune(t *testing.T) {
	for _, lead := range []string{"", "x"} {
		_, result := mergePolicies(t, podKind(), pod(t, `{schedulerName: `+lead+strings.Repeat("é", 200)+`}`), []*scheduling.Policy{policyOf(t, "one", `{schedulerName: mine}`)})
		has := result.Outcomes[0].Conflicts[0].Has
		if len(has) < 150 || len(has) > 210 || !utf8.ValidString(has) || !strings.HasSuffix(has, "é…") {
			t.Errorf("%q", has)
		}
	}
}

// deepPolicy is a policy with all fields that could make a pod of a DaemonSet unschedulable, and some that could not.
const deepPolicy = `{nodeSelector: {a: b}, schedulerName: mine, tolerations: [{operator: Exists}], affinity: {
	nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` + a + `]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + b + `]}}]},
	podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}], preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: z}}]}},
	topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}`

// softFields are the fields of deep that every pod can have.
const softFields = `schedulerName: mine, tolerations: [{operator: Exists}],
	topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]`

func TestDaemonSetPodsStaySchedulable(t *testing.T) {
	const named = `requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}`
	const preferred = `preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + b + `]}}]`
	const apart = `podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: z}}]}`
	owned := func(spec string) []byte {
		return jsonOf(t, `{metadata: {namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}, spec: `+spec+`}`)
	}
	template := func(spec string) []byte {
		return jsonOf(t, `{metadata: {namespace: shop}, spec: {template: {spec: `+spec+`}}}`)
	}
	policies := []*scheduling.Policy{policyOf(t, "one", deepPolicy), policyOf(t, "two", `{conflictPolicy: Reject, nodeName: node-2}`)}
	for claim, test := range map[string]struct {
		kind         schema.GroupKind
		before, want []byte
		skipped      int
	}{
		"a pod": {podKind(), owned(`{affinity: {nodeAffinity: {` + named + `}}}`),
			owned(`{` + softFields + `, affinity: {nodeAffinity: {` + named + `, ` + preferred + `}, ` + apart + `}}`), 4},
		"a template, whose node labels the DaemonSet controller applies": {schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, template(`{}`),
			template(`{` + softFields + `, nodeSelector: {a: b}, affinity: {nodeAffinity: {` + preferred + `}, ` + apart + `}}`), 2},
	} {
		t.Run(claim, func(t *testing.T) {
			got, result := mergePolicies(t, test.kind, test.before, policies)
			if test.kind.Kind == "DaemonSet" { // a: b contradicts the terms, which require the values 1 and 2
				if in := conflicts(result); !slices.Equal(in, []string{required}) {
					t.Errorf("got conflicts in %v", in)
				}
			} else if in := conflicts(result); in != nil {
				t.Errorf("got conflicts in %v", in)
			}
			if diff := cmp.Diff(valueOf(t, test.want), valueOf(t, got)); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
			if got := len(result.Outcomes[0].Skipped); got != test.skipped {
				t.Errorf("got %d skipped fields, want %d: %v", got, test.skipped, result.Outcomes[0].Skipped)
			}
			if len(result.Outcomes[1].Skipped) != 1 || result.Denial != "" {
				t.Errorf("nodeName: %+v, %s", result.Outcomes[1], result.Denial)
			}
		})
	}
}

func TestPatchPathOfTemplate(t *testing.T) {
	for kind, path := range map[schema.GroupKind]string{
		{Kind: "Pod"}:                                "/spec",
		{Kind: "ReplicationController"}:              "/spec/template/spec",
		{Group: "apps", Kind: "Deployment"}:          "/spec/template/spec",
		{Group: "apps", Kind: "StatefulSet"}:         "/spec/template/spec",
		{Group: "apps", Kind: "DaemonSet"}:           "/spec/template/spec",
		{Group: "apps", Kind: "ReplicaSet"}:          "/spec/template/spec",
		{Group: "batch", Kind: "Job"}:                "/spec/template/spec",
		{Group: "batch", Kind: "CronJob"}:            "/spec/jobTemplate/spec/template/spec",
		{Group: "example.com", Kind: "Deployment"}:   "",
		{Group: "apps", Kind: "Pod"}:                 "",
		{Group: "apps", Kind: "ControllerRevision"}:  "",
		{Group: "extensions", Kind: "NetworkPolicy"}: "",
	} {
		t.Run(kind.String(), func(t *testing.T) {
			steps, ok := scheduling.PathOf(kind)
			if got := strings.Join(append([]string{""}, steps...), "/"); path != got || ok != (path != "") {
				t.Fatalf("got %s, want %s", got, path)
			}
			if !ok {
				if _, err := scheduling.Read(kind, false, []byte(`{"spec": {}}`)); err == nil {
					t.Error("Read() succeeded, want an error")
				}
				return
			}
			object := map[string]any{"containers": []any{}}
			for _, step := range slices.Backward(steps) {
				object = map[string]any{step: object, "metadata": map[string]any{"labels": map[string]any{"at": step}}}
			}
			raw := []byte(written(t, object))
			if o := readObject(t, kind, false, raw); o.Labels["at"] != "spec" {
				t.Errorf("got labels %v", o.Labels)
			}
			_, result := mergePolicies(t, kind, raw, []*scheduling.Policy{policyOf(t, "one", `{nodeSelector: {example.com/a~b: c}}`), policyOf(t, "two", `{nodeSelector: {x: z}}`)})
			if want := `[{"op":"add","path":"` + path + `/nodeSelector","value":{"example.com/a~b":"c","x":"z"}}]`; string(result.Patch) != want {
				t.Errorf("got %s, want %s", result.Patch, want)
			}
		})
	}
}

func TestPatchIsMinimal(t *testing.T) {
	for claim, test := range map[string]struct{ pod, policy, want string }{
		"a key":        {`{nodeSelector: {a: b}}`, `{nodeSelector: {example.com/a~b: c}}`, `[{"op":"add","path":"/spec/nodeSelector/example.com~1a~0b","value":"c"}]`},
		"a value":      {`{schedulerName: default-scheduler}`, `{schedulerName: mine}`, `[{"op":"replace","path":"/spec/schedulerName","value":"mine"}]`},
		"a toleration": {`{tolerations: [{key: a, operator: Exists}]}`, `{tolerations: [{key: b, operator: Exists}, {key: c, operator: Exists}]}`, `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"b","operator":"Exists"}},{"op":"add","path":"/spec/tolerations/-","value":{"key":"c","operator":"Exists"}}]`},
		"terms":        {`{` + requiredNodeTerms(b) + `}`, `{` + requiredNodeTerms(d) + `}`, `[{"op":"replace","path":"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms","value":[{"matchExpressions":[{"key":"d","operator":"In","values":["yy"]},{"key":"b","operator":"Exists"}]}]}]`},
		"a parent":     {`{affinity: {podAffinity: {}}}`, `{` + requiredNodeTerms(b) + `}`, `[{"op":"add","path":"/spec/affinity/nodeAffinity","value":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}]`},
		"null":         {`{tolerations: null}`, `{tolerations: [{operator: Exists}]}`, `[{"op":"add","path":"/spec/tolerations","value":[{"operator":"Exists"}]}]`},
		"no change":    {`{tolerations: [{operator: Exists}]}`, `{tolerations: [{operator: Exists}]}`, ``},
	} {
		t.Run(claim, func(t *testing.T) {
			_, result := mergePolicies(t, podKind(), pod(t, test.pod), []*scheduling.Policy{policyOf(t, "one", test.policy)})
			if string(result.Patch) != test.want {
				t.Errorf("got %s\nwant %s", result.Patch, test.want)
			}
		})
	}
}

func TestMergeDoesNotModifyPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies := randomPolicies(t)
		object := readObject(t, podKind(), false, pod(t, written(t, randomSpec(t, true))))
		first, err := scheduling.Merge(object, policies, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := pod(t, written(t, randomSpec(t, true)))
		mergePolicies(t, podKind(), other, policies)
		second, err := scheduling.Merge(object, policies, nil)
		if err != nil || string(first.Patch) != string(second.Patch) {
			t.Fatalf("got %s first and then %s", first.Patch, second.Patch)
		}
	})
}

func FuzzMerge(f *testing.F) {
	for _, each := range contract {
		f.Add(pod(f, each.pod), jsonOf(f, each.policy))
	}
	f.Add([]byte(`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[null,{"matchExpressions":[null]}]}}}}}`), []byte(`{"nodeSelector":{"":""}}`))
	protectors := []scheduling.Protector{newProtector("core", "web", "z"), newProtector("other", "web", "z", withSelector(&v1alpha1.PodSelector{}))}
	f.Fuzz(func(t *testing.T, raw, spec []byte) {
		object := &v1alpha1.PodSchedulingPolicy{}
		if json.Unmarshal(spec, &object.Spec) != nil {
			return
		}
		policy, err := scheduling.Compile("core", object)
		if err != nil {
			return
		}
		o, err := scheduling.Read(podKind(), false, raw)
		if err != nil {
			return
		}
		result, err := scheduling.Merge(o, []*scheduling.Policy{policy}, protectors)
		if err != nil {
			t.Fatal(err)
		}
		if result.Patch == nil {
			return
		}
		o, err = scheduling.Read(podKind(), false, applyPatch(t, raw, result.Patch))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := scheduling.Merge(o, []*scheduling.Policy{policy}, protectors); err != nil || again.Patch != nil {
			t.Fatalf("second merge changed the object: %s, error %v", again.Patch, err)
		}
	})
}
