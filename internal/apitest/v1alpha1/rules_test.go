package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// Keys and values at the edges of what a label may be, in both halves of a selector.
func TestKeysAndValuesOfSelectors(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	const (
		inLabels      = "matchLabels has a key that is not a label key: use [prefix/]name"
		inExpressions = "key must be a label key: [prefix/]name"
	)
	prefix253 := strings.Repeat("p", 253)
	for claim, test := range map[string]struct {
		key    string
		denied bool
	}{
		"a name of 63 characters":    {strings.Repeat("k", 63), false},
		"a prefix of 253 characters": {prefix253 + "/" + strings.Repeat("k", 63), false},
		"a name of 64 characters":    {strings.Repeat("k", 64), true},
		"two slashes":                {"a/b/c", true},
		"an empty prefix":            {"/a", true},
		"an empty name":              {"example.com/", true},
		"a prefix in capitals":       {"Example.com/a", true},
		"a space":                    {"a b", true},
		"a dash at the end":          {"a-", true},
	} {
		t.Run(claim, func(t *testing.T) {
			labels, expressions := "", ""
			if test.denied {
				labels, expressions = inLabels, inExpressions
			}
			spec := func(selector string) string { return `spec: {minAvailable: 1, selector: {` + selector + `}}` }
			wantVerdict(t, c, object(t, "PodProtector", namespace, spec(`matchLabels: {"`+test.key+`": v}`)), labels)
			wantVerdict(t, c, object(t, "PodProtector", namespace,
				spec(`matchExpressions: [{key: "`+test.key+`", operator: Exists}]`)), expressions)
		})
	}
}

func TestLimitsOfSpecs(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	for claim, test := range map[string]struct{ kind, spec, denial string }{
		"NotIn with no value":                    {"PodProtector", `{minAvailable: 1, selector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}`, "values must hold at least one value"},
		"64 expressions":                         {"PodProtector", `{minAvailable: 1, selector: {matchExpressions: [` + repeated(64, "{key: k%d, operator: Exists}, ") + `]}}`, ""},
		"1000 values":                            {"PodProtector", `{minAvailable: 1, selector: {matchExpressions: [{key: a, operator: In, values: [` + repeated(1000, "v%d, ") + `]}]}}`, ""},
		"1001 values":                            {"PodProtector", `{minAvailable: 1, selector: {matchExpressions: [{key: a, operator: In, values: [` + repeated(1001, "v%d, ") + `]}]}}`, "must have at most 1000 items"},
		"null for a selector":                    {"PodProtector", `{minAvailable: 1, selector: null}`, "give either selector or targetRef"},
		"the highest compactThreshold":           {"PodProtector", `{minAvailable: 1, selector: {}, admissionHistory: {compactThreshold: 1000}}`, ""},
		"the slowest rate":                       {"PodProtector", `{minAvailable: 1, selector: {}, admissionHistory: {aggregationRateMillis: 3600000}}`, ""},
		"a deadline below 0":                     {"Cell", `{admissionDeadline: -65s}`, "admissionDeadline must be from 5s to 1h"},
		"a deadline just below 5s":               {"Cell", `{admissionDeadline: 4999ms}`, "admissionDeadline must be from 5s to 1h"},
		"a deadline just above 1h":               {"Cell", `{admissionDeadline: 1h1ms}`, "admissionDeadline must be from 5s to 1h"},
		"a deadline without a unit":              {"Cell", `{admissionDeadline: "65"}`, "must be of type duration"},
		"a deadline that is a number":            {"Cell", `{admissionDeadline: 65}`, "must be of type duration"},
		"a deadline in words":                    {"Cell", `{admissionDeadline: 10 minutes}`, "spec.admissionDeadline in body should match"},
		"staleAfter in days":                     {"Cell", `{staleAfter: 1d}`, "spec.staleAfter in body should match"},
		"minAvailable above 32 bits":             {"PodProtector", `{minAvailable: 2147483648, selector: {}}`, "from 0 to 2147483647"},
		"maxUnavailable above 32 bits":           {"PodProtector", `{maxUnavailable: 99999999999, selector: {}}`, "from 0 to 2147483647"},
		"minReadySeconds above 32 bits":          {"PodProtector", `{minAvailable: 1, minReadySeconds: 2147483648, selector: {}}`, "format int32"},
		"expectedReplicas above 32 bits":         {"PodProtector", `{minAvailable: 1, expectedReplicas: 2147483648, selector: {}}`, "format int32"},
		"minAvailable of a policy above 32 bits": {"ProtectionPolicy", `{floor: {minAvailable: 2147483648}}`, "from 0 to 2147483647"},
		"upToReplicas above 32 bits":             {"ProtectionPolicy", `{floor: {bands: [{upToReplicas: 2147483648, minAvailable: 1}, {minAvailable: 1}]}}`, "format int32"},
		"a zone each a third":                    {"PodProtector", spread(`{topologyKey: topology.kubernetes.io/zone, maxSharePercent: 34, minDomains: 3, enforcement: Schedule}`), ""},
		"tolerateDomainLoss for cells":           {"PodProtector", spread(`{topologyKey: breakwater.dev/cell, tolerateDomainLoss: true}`), ""},
		"shares that are too small":              {"PodProtector", spread(`{topologyKey: zone, maxSharePercent: 33, minDomains: 3}`), "it must be at least 100 divided by minDomains"},
		"pods scheduled to another cell":         {"PodProtector", spread(`{topologyKey: breakwater.dev/cell, enforcement: Schedule}`), "Schedule needs a label of nodes as topologyKey"},
		"an invalid topologyKey":                 {"PodProtector", spread(`{topologyKey: a zone}`), "topologyKey must be a label key of nodes"},
		"an empty spread":                        {"PodProtector", spread(`{}`), "topologyKey: Required value"},
		"maxSharePercent 0":                      {"PodProtector", spread(`{topologyKey: zone, maxSharePercent: 0}`), "greater than or equal to 1"},
		"an invalid spread of a policy":          {"ProtectionPolicy", `{spread: {topologyKey: breakwater.dev/cell, enforcement: Schedule}}`, "Schedule needs a label of nodes as topologyKey"},
		"an unknown settlement":                  {"Cell", `{settlement: Guess}`, `supported values: "Exact", "Clock", "Status"`},
	} {
		t.Run(claim, func(t *testing.T) {
			in := namespace
			if test.kind == "Cell" {
				in = ""
			}
			wantVerdict(t, c, object(t, test.kind, in, "spec: "+test.spec), test.denial)
		})
	}
}

// Rules that held on creation could still be undone by an update.
func TestUpdatesAreValidated(t *testing.T) {
	c := testplane.Client(t)
	p := created(t, c)
	for field, test := range map[string]struct {
		value  any
		denial string
	}{
		"minAvailable": {int64(-1), "must be a number of pods, from 0"},
		"selector":     {map[string]any{"matchLabels": map[string]any{"a b": "c"}}, "matchLabels has a key that is not a label key"},
	} {
		t.Run(field, func(t *testing.T) {
			u := p.DeepCopy()
			u.Object["spec"].(map[string]any)[field] = test.value
			wantErrorContaining(t, c.Update(t.Context(), u, client.DryRunAll), test.denial)
		})
	}
}

func TestUnknownFieldsArePruned(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	p := object(t, "PodProtector", namespace, `{spec: {selector: {}, minAvailable: 1, maxAvailable: 1}}`)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(p.Object, "spec", "maxAvailable"); found {
		t.Errorf("unknown field was stored: %v", p.Object["spec"])
	}
}

func TestObjectUpdateKeepsTheStatus(t *testing.T) {
	c := testplane.Client(t)
	p := &v1alpha1.PodProtector{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(created(t, c)), p); err != nil {
		t.Fatal(err)
	}
	reserve(p, 1)
	if err := c.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.Spec.MinAvailable, p.Status.Cells = v1alpha1.Pods(2), nil
	if err := c.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.MinAvailable.IntVal != 2 || len(p.Status.Cells) != 1 {
		t.Errorf("floor %s and %d cells after an update of the object, want 2 and the one that was counted",
			p.Spec.MinAvailable, len(p.Status.Cells))
	}
}

func spread(of string) string { return `{minAvailable: 1, selector: {}, spread: ` + of + `}` }
