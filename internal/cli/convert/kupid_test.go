package convert_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

const (
	kupid        = `{apiVersion: kupid.gardener.cloud/v1alpha1, kind: PodSchedulingPolicy, metadata: {name: %s, namespace: %s}, spec: %s}`
	kupidCluster = `{apiVersion: kupid.gardener.cloud/v1alpha1, kind: ClusterPodSchedulingPolicy, metadata: {name: %s}, spec: %s}`
)

// wantPoliciesAccepted creates policies on a real API server as a dry run.
func wantPoliciesAccepted(t testing.TB, c client.Client, policies []convert.Policy) (refusal error) {
	t.Helper()
	for i := range policies {
		manifest, err := policies[i].Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), &unstructured.Unstructured{Object: manifest}, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			return err
		}
	}
	return nil
}

func policySpecs(t testing.TB, policies []convert.Policy) []any {
	t.Helper()
	var all []any
	for i := range policies {
		manifest, err := policies[i].Manifest()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, manifest["spec"])
	}
	return all
}

func TestKupidPolicies(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const (
		usual    = "OneCluster PodsAlone"
		nodes    = "DaemonSets KeepsOwn " + usual
		web      = `podSelector: {matchLabels: {app: web}}`
		term     = `{matchExpressions: [{key: pool, operator: In, values: [etcd]}]}`
		required = `requiredDuringSchedulingIgnoredDuringExecution`
		prefer   = `preferredDuringSchedulingIgnoredDuringExecution`
	)
	affinity := func(terms string) string {
		return `affinity: {nodeAffinity: {` + required + `: {nodeSelectorTerms: [` + terms + `]}}}`
	}
	expression := func(e string) string { return web + `, ` + affinity(`{matchExpressions: [{key: a, `+e+`}]}`) }
	pods := func(term string) string {
		return web + `, affinity: {podAntiAffinity: {` + required + `: [` + term + `]}}`
	}
	// A want of "=" expects the given spec.
	for claim, test := range map[string]struct{ given, want, warnings string }{
		"a scheduler":                      {web + `, schedulerName: mine`, "=", usual},
		"all pods":                         {`podSelector: {}, schedulerName: mine`, "=", usual},
		"labels of nodes":                  {web + `, nodeSelector: {pool: etcd, example.com/a: ""}`, "=", nodes},
		"a node":                           {web + `, nodeName: node-1`, "=", "KeepsOwn " + usual},
		"a node and tolerations":           {web + `, nodeName: node-1, tolerations: [{operator: Exists}]`, "=", "KeepsOwn " + usual},
		"tolerations":                      {web + `, tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: a, value: b}]`, "=", usual},
		"affinity of nodes":                {web + `, ` + affinity(term), "=", nodes},
		"names of nodes":                   {web + `, ` + affinity(`{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}`), "=", nodes},
		"preferred nodes":                  {web + `, affinity: {nodeAffinity: {` + prefer + `: [{weight: 5, preference: ` + term + `}]}}`, "=", usual},
		"affinity of pods":                 {pods(`{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, namespaces: [shop]}`), "=", usual},
		"keys of labels":                   {pods(`{topologyKey: zone, labelSelector: {}, matchLabelKeys: [a], mismatchLabelKeys: [b]}`), "=", usual},
		"a whole number":                   {expression(`operator: Gt, values: ["5"]`), "=", nodes},
		"an equal toleration":              {web + `, tolerations: [{key: a, value: b}, {key: a, operator: Equal, value: b}]`, web + `, tolerations: [{key: a, value: b}]`, usual},
		"terms of nothing":                 {web + `, ` + affinity(`{}, `+term+`, {matchExpressions: []}`), web + `, ` + affinity(term), nodes},
		"preferred terms of none":          {web + `, schedulerName: s, affinity: {nodeAffinity: {` + prefer + `: [{weight: 0, preference: {}}]}}`, web + `, schedulerName: s`, usual},
		"empty affinity":                   {web + `, schedulerName: s, affinity: {podAffinity: {}}, tolerations: [], nodeSelector: {}, nodeName: ""`, web + `, schedulerName: s`, usual},
		"an unknown field":                 {web + `, schedulerName: s, topologySpreadConstraints: []`, web + `, schedulerName: s`, "Ignored " + usual},
		"a selector of namespaces":         {web + `, schedulerName: s, namespaceSelector: {}`, web + `, schedulerName: s`, "Ignored " + usual},
		"a policy that contradicts itself": {web + `, nodeSelector: {pool: web}, ` + affinity(term), "=", "Contradicts " + nodes},

		"no selector":                         {`schedulerName: mine`, "=", "ChoosesNothing"},
		"no selector, and a node selector":    {`nodeSelector: {pool: etcd}`, "=", "ChoosesNothing"},
		"no selector, and nothing to add":     {`tolerations: []`, "", "AddsNothing!"},
		"a selector of no pods":               {`podSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}, schedulerName: s`, "", "ChoosesNothing!"},
		"a malformed selector":                {`podSelector: {matchLabels: {a: "b c"}}, schedulerName: s`, "", "Malformed!"},
		"nothing to add":                      {web, "", "AddsNothing!"},
		"nothing but empty affinity":          {web + `, affinity: {nodeAffinity: {` + prefer + `: []}}`, "", "AddsNothing!"},
		"a node and affinity":                 {web + `, nodeName: node-1, ` + affinity(term), "", "NotPossible!"},
		"a node and labels of nodes":          {web + `, nodeName: node-1, nodeSelector: {a: b}`, "", "NotPossible!"},
		"a node and a scheduler":              {web + `, nodeName: node-1, schedulerName: s`, "", "NotPossible!"},
		"no terms":                            {web + `, ` + affinity(`{}`), "", "NotPossible!"},
		"17 terms":                            {web + `, ` + affinity(repeatFormat(17, `{matchExpressions: [{key: k%d, operator: Exists}]}, `)), "", "NotPossible!"},
		"33 tolerations":                      {web + `, tolerations: [` + repeatFormat(33, `{key: k%d}, `) + `]`, "", "NotPossible!"},
		"33 labels of nodes":                  {web + `, nodeSelector: {` + repeatFormat(33, `k%d: v, `) + `}`, "", "NotPossible!"},
		"9 terms of pods":                     {pods(repeatFormat(9, `{topologyKey: k%d}, `)), "", "NotPossible!"},
		"a negative number":                   {expression(`operator: Gt, values: ["-5"]`), "", "Malformed!"},
		"19 digits":                           {expression(`operator: Lt, values: ["1000000000000000000"]`), "", "NotPossible!"},
		"In without values":                   {expression(`operator: In`), "", "Malformed!"},
		"Exists with values":                  {expression(`operator: Exists, values: [a]`), "", "Malformed!"},
		"another operator":                    {expression(`operator: Is, values: [a]`), "", "NotPossible!"},
		"another field":                       {web + `, ` + affinity(`{matchFields: [{key: spec.x, operator: In, values: [a]}]}`), "", "NotPossible!"},
		"two names":                           {web + `, ` + affinity(`{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}`), "", "Malformed!"},
		"a taint for two times":               {web + `, tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 1}, {key: a, effect: NoExecute}]`, "", "NotPossible!"},
		"an operator of a gate":               {web + `, tolerations: [{key: a, operator: Gt, value: "1"}]`, "", "NotPossible!"},
		"a toleration without a key":          {web + `, tolerations: [{value: a}]`, "", "Malformed!"},
		"Exists with a value":                 {web + `, tolerations: [{key: a, operator: Exists, value: b}]`, "", "Malformed!"},
		"tolerationSeconds without NoExecute": {web + `, tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]`, "", "Malformed!"},
		"no topologyKey":                      {pods(`{labelSelector: {}}`), "", "Malformed!"},
		"a weight of 0":                       {web + `, affinity: {nodeAffinity: {` + prefer + `: [{weight: 0, preference: ` + term + `}]}}`, "", "Malformed!"},
		"keys of labels that it selects":      {pods(`{topologyKey: z, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [a]}`), "", "Malformed!"},
		"keys of labels without selector":     {pods(`{topologyKey: z, matchLabelKeys: [a]}`), "", "Malformed!"},
		"a key both ways":                     {pods(`{topologyKey: z, labelSelector: {}, matchLabelKeys: [a], mismatchLabelKeys: [a]}`), "", "Malformed!"},
		"a name that is none":                 {web + `, schedulerName: "a b"`, "", "Malformed!"},
		"a word for labels":                   {web + `, nodeSelector: x`, "", "Malformed!"},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert([]convert.Source{source(t, fmt.Sprintf(kupid, "web", "default", "{"+test.given+"}"))})
			var want []any
			switch test.want {
			case "":
			case "=":
				want = []any{parsed(t, "{"+test.given+"}")}
			default:
				want = []any{parsed(t, "{"+test.want+"}")}
			}
			if diff := cmp.Diff(want, policySpecs(t, result.Policies)); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
			wants := strings.Fields(test.warnings)
			slices.Sort(wants)
			if got := reasons(result.Warnings); got != strings.Join(wants, " ") {
				t.Errorf("warnings %q, want %q:\n%v", got, wants, result.Warnings)
			}
			if err := wantPoliciesAccepted(t, c, result.Policies); err != nil {
				t.Errorf("API server rejected it: %v", err)
			}
			// The API server must reject what is not converted. Otherwise it could have been converted.
			if test.want == "" && len(result.Warnings) == 1 && result.Warnings[0].Reason != convert.ChoosesNothing {
				spec := parsed(t, "{"+test.given+"}")
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "breakwater.dev/v1alpha1", "kind": "PodSchedulingPolicy",
					"metadata": map[string]any{"name": "web", "namespace": "default"}, "spec": spec}}
				if err := c.Create(t.Context(), u, client.DryRunAll); err == nil {
					t.Errorf("API server accepted a policy that was not converted: %v", result.Warnings)
				}
			}
		})
	}
}

func TestKupidClusterPolicies(t *testing.T) {
	c, err := client.New(testplane.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for claim, test := range map[string]struct{ given, warnings string }{
		"namespaces with labels": {`{podSelector: {}, namespaceSelector: {matchLabels: {role: shoot}}, schedulerName: mine}`, "OneCluster PodsAlone"},
		"all namespaces":         {`{podSelector: {}, namespaceSelector: {}, schedulerName: mine}`, "OneCluster PodsAlone"},
		"no namespaces":          {`{podSelector: {}, schedulerName: mine}`, "ChoosesNothing"},
		"no pods":                {`{namespaceSelector: {}, schedulerName: mine}`, "ChoosesNothing"},
		"neither":                {`{schedulerName: mine}`, "ChoosesNothing"},
		"impossible namespaces":  {`{podSelector: {}, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}, schedulerName: mine}`, "ChoosesNothing!"},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert([]convert.Source{source(t, fmt.Sprintf(kupidCluster, "web", test.given))})
			if got := reasons(result.Warnings); got != test.warnings {
				t.Errorf("warnings %q, want %q", got, test.warnings)
			}
			if strings.HasSuffix(test.warnings, "!") != (len(result.Policies) == 0) {
				t.Fatalf("%d policies", len(result.Policies))
			}
			if err := wantPoliciesAccepted(t, c, result.Policies); err != nil {
				t.Errorf("API server rejected it: %v", err)
			}
			for _, spec := range policySpecs(t, result.Policies) {
				if diff := cmp.Diff(parsed(t, test.given), spec); diff != "" {
					t.Errorf("policy (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestContradictingPoliciesWarn(t *testing.T) {
	const one, other = `{podSelector: {matchLabels: {app: web}}, schedulerName: one}`, `{podSelector: {matchLabels: {tier: front}}, schedulerName: other}`
	for claim, test := range map[string]struct {
		sources []string
		want    string
	}{
		"two of a namespace":              {[]string{fmt.Sprintf(kupid, "b", "shop", one), fmt.Sprintf(kupid, "a", "shop", other)}, "kupid PodSchedulingPolicy shop/b: it contradicts kupid PodSchedulingPolicy shop/a in schedulerName"},
		"one of the cluster":              {[]string{fmt.Sprintf(kupidCluster, "a", `{podSelector: {}, namespaceSelector: {}, schedulerName: x}`), fmt.Sprintf(kupid, "b", "shop", one)}, "kupid ClusterPodSchedulingPolicy a: it contradicts kupid PodSchedulingPolicy shop/b in schedulerName"},
		"two namespaces":                  {[]string{fmt.Sprintf(kupid, "b", "shop", one), fmt.Sprintf(kupid, "a", "office", other)}, ""},
		"the same scheduler":              {[]string{fmt.Sprintf(kupid, "b", "shop", one), fmt.Sprintf(kupid, "a", "shop", one)}, ""},
		"other pods":                      {[]string{fmt.Sprintf(kupid, "b", "shop", one), fmt.Sprintf(kupid, "a", "shop", strings.ReplaceAll(strings.ReplaceAll(one, "web", "api"), "one", "x"))}, ""},
		"a policy for no pods":            {[]string{fmt.Sprintf(kupid, "b", "shop", one), fmt.Sprintf(kupid, "a", "shop", `{schedulerName: x}`)}, ""},
		"a policy for no namespaces":      {[]string{fmt.Sprintf(kupidCluster, "a", `{podSelector: {}, schedulerName: x}`), fmt.Sprintf(kupid, "b", "shop", one)}, ""},
		"other namespaces":                {[]string{fmt.Sprintf(kupidCluster, "a", `{podSelector: {}, namespaceSelector: {matchLabels: {a: b}}, schedulerName: x}`), fmt.Sprintf(kupidCluster, "b", `{podSelector: {}, namespaceSelector: {matchLabels: {a: c}}, schedulerName: z}`)}, ""},
		"affinity that no node satisfies": {[]string{fmt.Sprintf(kupid, "b", "shop", `{podSelector: {}, nodeSelector: {pool: b}}`), fmt.Sprintf(kupid, "a", "shop", `{podSelector: {}, nodeSelector: {pool: a}}`)}, "kupid PodSchedulingPolicy shop/b: it contradicts kupid PodSchedulingPolicy shop/a in nodeSelector[pool]"},
		"a policy without contradictions": {[]string{fmt.Sprintf(kupid, "b", "shop", `{podSelector: {}, nodeSelector: {pool: b}}`), fmt.Sprintf(kupid, "a", "shop", `{podSelector: {}, nodeSelector: {disk: a}}`)}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			var sources []convert.Source
			for _, text := range test.sources {
				sources = append(sources, source(t, text))
			}
			result := convert.Convert(sources)
			got := warningsAbout(&result, convert.Contradicts)
			if len(result.Policies) != 2 || (len(got) == 1) != (test.want != "") || test.want != "" && !strings.HasPrefix(got[0], test.want+"; ") {
				t.Errorf("%d policies, warnings %q, want %q", len(result.Policies), got, test.want)
			}
		})
	}
}

func TestConvertPoliciesInAnyOrder(t *testing.T) {
	var sources []convert.Source
	for _, name := range []string{"a", "b", "c"} {
		for _, namespace := range []string{"shop", "office"} {
			sources = append(sources, source(t, fmt.Sprintf(kupid, name, namespace, `{podSelector: {}, schedulerName: `+name+`}`)))
		}
		sources = append(sources, source(t, fmt.Sprintf(kupidCluster, name, `{podSelector: {}, namespaceSelector: {}, schedulerName: `+name+`}`)))
	}
	sources = append(sources, source(t, fmt.Sprintf(kupid, "none", "shop", `{schedulerName: x}`)), source(t, fmt.Sprintf(pdb, "name: web", "app: web")))
	want := convert.Convert(sources)
	if len(want.Policies) != 10 || len(want.Protectors) != 1 || len(warningsAbout(&want, convert.Contradicts)) == 0 {
		t.Fatalf("%d policies, %d protectors, warnings %v", len(want.Policies), len(want.Protectors), want.Warnings)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := slices.Clone(sources)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, convert.Convert(shuffled)); diff != "" {
			t.Fatalf("result depends on the order:\n%s", diff)
		}
	}
}

func TestDuplicatePolicies(t *testing.T) {
	one := source(t, fmt.Sprintf(kupid, "web", "shop", `{podSelector: {}, schedulerName: one}`))
	other := source(t, fmt.Sprintf(kupid, "web", "shop", `{podSelector: {}, schedulerName: other}`))
	one.Origin, other.Origin = "one.yaml", "other.yaml"
	for claim, test := range map[string]struct {
		sources  []convert.Source
		warnings int
	}{
		"alike":     {[]convert.Source{one, one}, 0},
		"otherwise": {[]convert.Source{one, other}, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert(test.sources)
			if got := warningsAbout(&result, convert.Repeated); len(result.Policies) != 1 || result.Policies[0].From.Origin != "one.yaml" || len(got) != test.warnings {
				t.Errorf("policies %v, warnings %q", result.Policies, got)
			}
		})
	}
}
