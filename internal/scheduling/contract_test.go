package scheduling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// requiredNodeTerms formats terms of required node affinity, each as expressions and, after a bar, fields.
func requiredNodeTerms(terms ...string) string {
	var all []string
	for _, each := range terms {
		expressions, names, _ := strings.Cut(each, "|")
		var parts []string
		if expressions != "" {
			parts = append(parts, "matchExpressions: ["+expressions+"]")
		}
		if names != "" {
			parts = append(parts, "matchFields: ["+names+"]")
		}
		all = append(all, "{"+strings.Join(parts, ", ")+"}")
	}
	return `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + strings.Join(all, ", ") + `]}}}`
}

// Requirements of the table, named by the letters of the contract.
const (
	a = `{key: a, operator: In, values: ["1", "2"]}`
	b = `{key: b, operator: Exists}`
	c = `{key: c, operator: NotIn, values: [x]}`
	d = `{key: d, operator: In, values: [yy]}`
	e = `{key: e, operator: DoesNotExist}`
	f = `{key: metadata.name, operator: NotIn, values: [node-9]}`
)

const required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

// contract lists the result of adding one policy to a pod's spec.
var contract = map[string]struct {
	pod, policy, want string
	conflicts         []string
}{
	"nothing to add":                                         {`{}`, `{}`, `{}`, nil},
	"fields that the pod already has":                        {`{nodeSelector: {a: "1"}, schedulerName: mine, nodeName: node-1}`, `{nodeSelector: {a: "1"}, schedulerName: mine}`, `{nodeSelector: {a: "1"}, schedulerName: mine, nodeName: node-1}`, nil},
	"nothing else changes":                                   {`{containers: [{name: c, image: i}], priority: 12345678901234567, unheardOf: {deep: [1, {x: 2}]}}`, `{schedulerName: mine}`, `{containers: [{name: c, image: i}], priority: 12345678901234567, unheardOf: {deep: [1, {x: 2}]}, schedulerName: mine}`, nil},
	"a scheduler":                                            {`{}`, `{schedulerName: mine}`, `{schedulerName: mine}`, nil},
	"a scheduler for an empty one":                           {`{schedulerName: ""}`, `{schedulerName: mine}`, `{schedulerName: mine}`, nil},
	"a scheduler for the default":                            {`{schedulerName: default-scheduler}`, `{schedulerName: mine}`, `{schedulerName: mine}`, nil},
	"the pod's own scheduler":                                {`{schedulerName: its}`, `{schedulerName: mine, nodeSelector: {a: b}}`, `{schedulerName: its, nodeSelector: {a: b}}`, []string{"schedulerName"}},
	"the pod's own over the default":                         {`{schedulerName: its}`, `{schedulerName: default-scheduler}`, `{schedulerName: its}`, []string{"schedulerName"}},
	"a node":                                                 {`{}`, `{nodeName: node-1}`, `{nodeName: node-1}`, nil},
	"the pod's own node":                                     {`{nodeName: its}`, `{nodeName: node-1}`, `{nodeName: its}`, []string{"nodeName"}},
	"a node for a pod with gates":                            {`{schedulingGates: [{name: g}]}`, `{nodeName: node-1}`, `{schedulingGates: [{name: g}]}`, []string{"nodeName"}},
	"a node for a pod that selects":                          {`{nodeSelector: {a: b}}`, `{nodeName: node-1}`, `{nodeSelector: {a: b}}`, []string{"nodeName"}},
	"a node for a pod that requires":                         {`{` + requiredNodeTerms(a) + `}`, `{nodeName: node-1}`, `{` + requiredNodeTerms(a) + `}`, []string{"nodeName"}},
	"a node for a pod that names it":                         {`{` + requiredNodeTerms(a, "|{key: metadata.name, operator: In, values: [node-1]}") + `}`, `{nodeName: node-1}`, `{nodeName: node-1, ` + requiredNodeTerms(a, "|{key: metadata.name, operator: In, values: [node-1]}") + `}`, nil},
	"a node for a pod that names another":                    {`{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-2]}") + `}`, `{nodeName: node-1}`, `{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-2]}") + `}`, []string{"nodeName"}},
	"a node for a pod with anti-affinity":                    {`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}}`, `{nodeName: node-1}`, `{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}}`, []string{"nodeName"}},
	"a node for a pod that spreads":                          {`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}`, `{nodeName: node-1}`, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}`, []string{"nodeName"}},
	"a node for a pod that prefers":                          {`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}`, `{nodeName: node-1}`, `{nodeName: node-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}`, nil},
	"labels of nodes":                                        {`{}`, `{nodeSelector: {a: b, c: d}}`, `{nodeSelector: {a: b, c: d}}`, nil},
	"labels of nodes for null":                               {`{nodeSelector: null}`, `{nodeSelector: {a: b}}`, `{nodeSelector: {a: b}}`, nil},
	"labels of nodes key by key":                             {`{nodeSelector: {a: x, e: f}}`, `{nodeSelector: {a: b, c: d, e: f}}`, `{nodeSelector: {a: x, c: d, e: f}}`, []string{"nodeSelector[a]"}},
	"a label that is incompatible with all terms":            {`{` + requiredNodeTerms(a) + `}`, `{nodeSelector: {a: "3", b: x}}`, `{nodeSelector: {b: x}, ` + requiredNodeTerms(a) + `}`, []string{"nodeSelector[a]"}},
	"a label that is compatible with one term":               {`{` + requiredNodeTerms(a, d) + `}`, `{nodeSelector: {a: "3"}}`, `{nodeSelector: {a: "3"}, ` + requiredNodeTerms(a, d) + `}`, nil},
	"a label for a pod that has its node":                    {`{nodeName: node-1}`, `{nodeSelector: {a: b}}`, `{nodeName: node-1}`, []string{"nodeSelector[a]"}},
	"terms for a pod that has its node":                      {`{nodeName: node-1}`, `{` + requiredNodeTerms(a) + `}`, `{nodeName: node-1}`, []string{required}},
	"terms":                                                  {`{}`, `{` + requiredNodeTerms(a, d) + `}`, `{` + requiredNodeTerms(a, d) + `}`, nil},
	"terms for empty parents":                                {`{affinity: {nodeAffinity: null}}`, `{` + requiredNodeTerms(a) + `}`, `{` + requiredNodeTerms(a) + `}`, nil},
	"terms that are compatible with the labels":              {`{nodeSelector: {a: "3"}}`, `{` + requiredNodeTerms(a, d) + `}`, `{nodeSelector: {a: "3"}, ` + requiredNodeTerms(d) + `}`, nil},
	"terms that are incompatible with the labels":            {`{nodeSelector: {a: "3"}}`, `{` + requiredNodeTerms(a) + `}`, `{nodeSelector: {a: "3"}}`, []string{required}},
	"terms multiplied, the policy's first":                   {`{` + requiredNodeTerms(a+","+b, c) + `}`, `{` + requiredNodeTerms(d, e+"|"+f) + `}`, `{` + requiredNodeTerms(d+","+a+","+b, e+","+a+","+b+"|"+f, d+","+c, e+","+c+"|"+f) + `}`, nil},
	"terms of fields multiplied":                             {`{` + requiredNodeTerms("|"+f) + `}`, `{` + requiredNodeTerms(d) + `}`, `{` + requiredNodeTerms(d+"|"+f) + `}`, nil},
	"equal requirements once":                                {`{` + requiredNodeTerms(a+","+b) + `}`, `{` + requiredNodeTerms(b+","+d) + `}`, `{` + requiredNodeTerms(b+","+d+","+a) + `}`, nil},
	"equal but for the order of values":                      {`{` + requiredNodeTerms(`{key: a, operator: In, values: ["2", "1"]},`+b) + `}`, `{` + requiredNodeTerms(a) + `}`, `{` + requiredNodeTerms(`{key: a, operator: In, values: ["2", "1"]},`+b) + `}`, nil},
	"a term that has it stays":                               {`{` + requiredNodeTerms(a+","+d, b) + `}`, `{` + requiredNodeTerms(d, e) + `}`, `{` + requiredNodeTerms(a+","+d, d+","+b, e+","+b) + `}`, nil},
	"contradictory terms are dropped":                        {`{` + requiredNodeTerms(`{key: d, operator: NotIn, values: [yy]}`, b) + `}`, `{` + requiredNodeTerms(d) + `}`, `{` + requiredNodeTerms(d+","+b) + `}`, nil},
	"no term left":                                           {`{` + requiredNodeTerms(`{key: d, operator: NotIn, values: [yy]}`) + `}`, `{` + requiredNodeTerms(d) + `, tolerations: [{operator: Exists}]}`, `{tolerations: [{operator: Exists}], ` + requiredNodeTerms(`{key: d, operator: NotIn, values: [yy]}`) + `}`, []string{required}},
	"none left by the names of nodes":                        {`{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-9]}") + `}`, `{` + requiredNodeTerms("|"+f) + `}`, `{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-9]}") + `}`, []string{required}},
	"none left by two names of nodes":                        {`{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-1]}") + `}`, `{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-2]}") + `}`, `{` + requiredNodeTerms("|{key: metadata.name, operator: In, values: [node-1]}") + `}`, []string{required}},
	"an empty term matches no node":                          {`{` + requiredNodeTerms("", a) + `}`, `{` + requiredNodeTerms(d) + `}`, `{` + requiredNodeTerms(d+","+a) + `}`, nil},
	"only empty terms":                                       {`{` + requiredNodeTerms("") + `}`, `{` + requiredNodeTerms(d) + `}`, `{` + requiredNodeTerms("") + `}`, []string{required}},
	"unknown fields of a term":                               {`{affinity: {new: 1, nodeAffinity: {new: 2, requiredDuringSchedulingIgnoredDuringExecution: {new: 3, nodeSelectorTerms: [{new: 12345678901234567, matchExpressions: [{key: b, operator: Exists, new: 5}]}]}}}}`, `{` + requiredNodeTerms(d, e) + `}`, `{affinity: {new: 1, nodeAffinity: {new: 2, requiredDuringSchedulingIgnoredDuringExecution: {new: 3, nodeSelectorTerms: [{new: 12345678901234567, matchExpressions: [` + d + `, {key: b, operator: Exists, new: 5}]}, {new: 12345678901234567, matchExpressions: [` + e + `, {key: b, operator: Exists, new: 5}]}]}}}}`, nil},
	"preferred terms":                                        {`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + a + `]}}]}}}`, `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + a + `]}}, {weight: 2, preference: {matchExpressions: [` + b + `]}}]}}}`, `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + a + `]}}, {weight: 2, preference: {matchExpressions: [` + b + `]}}]}}}`, nil},
	"terms of pods":                                          {`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}, {topologyKey: yy, labelSelector: {}}]}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, podAffinityTerm: {topologyKey: z}}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}, {topologyKey: yy, labelSelector: {}}]}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, podAffinityTerm: {topologyKey: z}}]}}}`, nil},
	"a selector of all pods differs from a selector of none": {`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x, labelSelector: {}}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}, {topologyKey: x, labelSelector: {}}]}}}`, nil},
	"null and empty lists are equivalent to absent fields":   {`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x, namespaces: [], labelSelector: null}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x}]}}}`, `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: x, namespaces: [], labelSelector: null}]}}}`, nil},
	"tolerations":                                            {`{tolerations: [{key: a, operator: Exists}]}`, `{tolerations: [{key: a, operator: Exists}, {key: a, value: x}, {key: a, operator: Exists, effect: NoExecute}]}`, `{tolerations: [{key: a, operator: Exists}, {key: a, value: x}, {key: a, operator: Exists, effect: NoExecute}]}`, nil},
	"a toleration is Equal by default":                       {`{tolerations: [{key: a, operator: Equal, value: x}]}`, `{tolerations: [{key: a, value: x}]}`, `{tolerations: [{key: a, operator: Equal, value: x}]}`, nil},
	"the pod's own time":                                     {`{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}`, `{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 6}, {key: b, operator: Exists}]}`, `{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: b, operator: Exists}]}`, []string{"tolerations[a,Exists,,NoExecute].tolerationSeconds"}},
	"the pod's own for ever":                                 {`{tolerations: [{key: a, operator: Exists, effect: NoExecute}]}`, `{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 6}]}`, `{tolerations: [{key: a, operator: Exists, effect: NoExecute}]}`, []string{"tolerations[a,Exists,,NoExecute].tolerationSeconds"}},
	"constraints":                                            {`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, `{topologySpreadConstraints: [{maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}, {maxSkew: 1, topologyKey: yy, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}, {maxSkew: 1, topologyKey: yy, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, nil},
	"the pod's own constraint":                               {`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, `{topologySpreadConstraints: [{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, []string{"topologySpreadConstraints[z,DoNotSchedule]"}},
	"a constraint without a protector":                       {`{}`, `{topologySpreadConstraints: [{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}`, `{}`, nil},
	"the empty lists of a pod":                               {`{tolerations: [], topologySpreadConstraints: [], affinity: {}}`, `{tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}], ` + requiredNodeTerms(a) + `}`, `{tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}], ` + requiredNodeTerms(a) + `}`, nil},
	"fields that look like ours in capital":                  {`{NodeSelector: {a: b}, Affinity: x}`, `{nodeSelector: {c: d}}`, `{NodeSelector: {a: b}, Affinity: x, nodeSelector: {c: d}}`, nil},
}

func TestMergeContract(t *testing.T) {
	for claim, test := range contract {
		t.Run(claim, func(t *testing.T) {
			policies := []*scheduling.Policy{policyOf(t, "one", test.policy)}
			got, result := mergePolicies(t, podKind(), pod(t, test.pod), policies)
			if diff := cmp.Diff(valueOf(t, pod(t, test.want)), valueOf(t, got)); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
			if in := conflicts(result); !slices.Equal(in, test.conflicts) {
				t.Errorf("got conflicts in %v, want %v", in, test.conflicts)
			}
			if changed := !cmp.Equal(valueOf(t, pod(t, test.pod)), valueOf(t, got)); changed != (result.Patch != nil) {
				t.Errorf("got patch %s, want none", result.Patch)
			}
			if _, again := mergePolicies(t, podKind(), got, policies); again.Patch != nil || len(again.Outcomes[0].Injected) > 0 || !slices.Equal(conflicts(again), test.conflicts) {
				t.Errorf("second merge changed the object: %s, conflicts in %v", again.Patch, conflicts(again))
			}
		})
	}
}

// An allowed number can be written with up to 62 leading zeros, and all these forms must be excluded.
func TestNotInExcludesAllSpellingsOfNumber(t *testing.T) {
	var forms []string
	for zeros := range 63 {
		forms = append(forms, `"`+strings.Repeat("0", zeros)+`5"`)
	}
	policies := []*scheduling.Policy{policyOf(t, "one", `{`+requiredNodeTerms(`{key: k, operator: Gt, values: ["4"]}, {key: k, operator: Lt, values: ["6"]}`)+`}`)}
	for excluded, conflict := range map[int]bool{62: false, 63: true} {
		_, result := mergePolicies(t, podKind(), pod(t, `{`+requiredNodeTerms(`{key: k, operator: NotIn, values: [`+strings.Join(forms[:excluded], ", ")+`]}`)+`}`), policies)
		if (len(conflicts(result)) > 0) != conflict {
			t.Errorf("%d forms excluded: got conflicts in %v", excluded, conflicts(result))
		}
	}
}

// Numbers keep all their digits, which a comparison of floating-point numbers would not detect.
func TestMergePreservesNumberSpelling(t *testing.T) {
	got, _ := mergePolicies(t, podKind(), pod(t, contract["unknown fields of a term"].pod), []*scheduling.Policy{policyOf(t, "one", `{`+requiredNodeTerms(d, e)+`}`)})
	if strings.Count(string(got), "12345678901234567") != 2 {
		t.Errorf("%s", got)
	}
}

func TestReadRejectsMalformedPods(t *testing.T) {
	for claim, raw := range map[string]string{
		"no JSON":               `{`,
		"no object":             `[]`,
		"no spec":               `{"metadata": {}}`,
		"null for a spec":       `{"spec": null}`,
		"a string for a spec":   `{"spec": "x"}`,
		"a string for affinity": `{"spec": {"affinity": "x"}}`,
		"a string for terms":    `{"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}}}}`,
		"numbers for labels":    `{"spec": {"nodeSelector": {"a": 1}}}`,
		"data after the object": `{"spec": {}} {}`,
	} {
		t.Run(claim, func(t *testing.T) {
			if _, err := scheduling.Read(podKind(), false, []byte(raw)); err == nil {
				t.Error("Read() succeeded, want an error")
			}
		})
	}
}
