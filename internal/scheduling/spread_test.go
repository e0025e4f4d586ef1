package scheduling_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// newProtector returns a protector of the pods with app=web that spreads them by a node label.
func newProtector(core, name, key string, change ...func(*scheduling.Protector)) scheduling.Protector {
	p := scheduling.Protector{
		Core: core, Namespace: "shop", Name: name, Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}},
		Spread: &scheduling.Spread{TopologyKey: key},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func withMinDomains(alone bool) func(*scheduling.Protector) {
	return func(p *scheduling.Protector) { p.Spread.MinDomains, p.Spread.SingleCell = ptr.To[int32](3), alone }
}

func withSelector(selector *v1alpha1.PodSelector) func(*scheduling.Protector) {
	return func(p *scheduling.Protector) { p.Selector = selector }
}

// even is the constraint of a spread by key z. The others use another key or another maxSkew.
const (
	even      = `{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}`
	evenY     = `{maxSkew: 1, topologyKey: yy, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}`
	evenByTwo = `{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}`
	anyway    = `{maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}`
	spreadZ   = "topologySpreadConstraints[z,DoNotSchedule]"
)

func constraints(all string) string { return `topologySpreadConstraints: [` + all + `]` }

func TestMergeSpreads(t *testing.T) {
	one := newProtector("core", "web", "z")
	everything := &v1alpha1.PodSelector{}
	withoutSpread := scheduling.Protector{Core: "core", Namespace: "shop", Name: "web", Selector: everything}
	for claim, test := range map[string]struct {
		pod        string
		policy     string
		protectors []scheduling.Protector
		want       string
		// told is the expected outcome of each protector with a spread, in order: an injected field, a conflict or a skipped field.
		told []string
	}{
		"a protector without a spread":           {`{}`, ``, []scheduling.Protector{withoutSpread}, `{}`, nil},
		"one":                                    {`{}`, ``, []scheduling.Protector{one}, `{` + constraints(even) + `}`, []string{"injected " + spreadZ}},
		"one of all pods":                        {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z", withSelector(everything))}, `{` + constraints(`{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {}}`) + `}`, []string{"injected " + spreadZ}},
		"minDomains, of one cell":                {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z", withMinDomains(true))}, `{` + constraints(`{maxSkew: 1, topologyKey: z, minDomains: 3, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}`) + `}`, []string{"injected " + spreadZ}},
		"minDomains, of several cells":           {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z", withMinDomains(false))}, `{` + constraints(even) + `}`, []string{"injected " + spreadZ + ", skipped " + spreadZ + ".minDomains"}},
		"a protector whose selector is unknown":  {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z", withSelector(nil))}, `{}`, []string{"skipped " + spreadZ}},
		"a pod that already has the constraint":  {`{` + constraints(even) + `}`, ``, []scheduling.Protector{one}, `{` + constraints(even) + `}`, []string{""}},
		"the pod's own":                          {`{` + constraints(evenByTwo) + `}`, ``, []scheduling.Protector{one}, `{` + constraints(evenByTwo) + `}`, []string{"conflict in " + spreadZ + ": the object keeps its own value"}},
		"the pod's own of the other kind":        {`{` + constraints(anyway) + `}`, ``, []scheduling.Protector{one}, `{` + constraints(anyway+", "+even) + `}`, []string{"injected " + spreadZ}},
		"a policy's":                             {`{}`, `{` + constraints(evenByTwo) + `}`, []scheduling.Protector{newProtector("core", "web", "z", withSelector(everything))}, `{` + constraints(`{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}`) + `}`, []string{"conflict in " + spreadZ + ": PodSchedulingPolicy shop/one takes precedence and has set it"}},
		"a policy's of the other kind":           {`{}`, `{` + constraints(anyway) + `}`, []scheduling.Protector{newProtector("core", "web", "z", withSelector(everything))}, `{` + constraints(anyway+`, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {}}`) + `}`, []string{"injected " + spreadZ}},
		"the node of a policy":                   {`{}`, `{nodeName: node-1}`, []scheduling.Protector{one}, `{nodeName: node-1}`, []string{"skipped " + spreadZ}},
		"a pod that has its node":                {`{nodeName: node-1}`, ``, []scheduling.Protector{one}, `{nodeName: node-1}`, []string{"skipped " + spreadZ}},
		"several, of the same key: by name":      {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z", withSelector(everything)), newProtector("core", "all", "z")}, `{` + constraints(even) + `}`, []string{"injected " + spreadZ, "conflict in " + spreadZ + ": PodProtector shop/all takes precedence and has set it"}},
		"several, of the same key: first cores":  {`{}`, ``, []scheduling.Protector{newProtector("core", "web", "z"), newProtector("b", "web", "z", withSelector(everything))}, `{` + constraints(`{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {}}`) + `}`, []string{"injected " + spreadZ, "conflict in " + spreadZ + ": PodProtector shop/web takes precedence and has set it"}},
		"several equal spreads":                  {`{}`, ``, []scheduling.Protector{one, newProtector("other", "web", "z")}, `{` + constraints(even) + `}`, []string{"injected " + spreadZ, ""}},
		"several, of other keys":                 {`{}`, ``, []scheduling.Protector{one, withoutSpread, newProtector("core", "b", "yy")}, `{` + constraints(evenY+", "+even) + `}`, []string{"injected topologySpreadConstraints[yy,DoNotSchedule]", "injected " + spreadZ}},
		"policies are added before spreads":      {`{nodeSelector: {a: b}}`, `{conflictPolicy: Reject, tolerations: [{operator: Exists}]}`, []scheduling.Protector{one}, `{nodeSelector: {a: b}, tolerations: [{operator: Exists}], ` + constraints(even) + `}`, []string{"injected " + spreadZ}},
		"null in place of the pod's constraints": {`{topologySpreadConstraints: null}`, ``, []scheduling.Protector{one}, `{` + constraints(even) + `}`, []string{"injected " + spreadZ}},
	} {
		t.Run(claim, func(t *testing.T) {
			var policies []*scheduling.Policy
			if test.policy != "" {
				policies = []*scheduling.Policy{policyOf(t, "one", test.policy)}
			}
			got, result := mergePolicies(t, podKind(), pod(t, test.pod), policies, test.protectors...)
			if diff := gocmp.Diff(valueOf(t, pod(t, test.want)), valueOf(t, got)); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(test.told, told(result)); diff != "" {
				t.Errorf("effects differ (-want +got):\n%s", diff)
			}
			if _, again := mergePolicies(t, podKind(), got, policies, test.protectors...); again.Patch != nil {
				t.Errorf("second merge changed the object: %s", again.Patch)
			}
		})
	}
}

// told formats the outcomes of the spreads, in their order.
func told(result scheduling.Result) (all []string) {
	for _, s := range result.Spreads {
		text := ""
		add := func(more string) { text += map[bool]string{true: more, false: ", " + more}[text == ""] }
		for _, field := range s.Injected {
			add("injected " + field)
		}
		for _, c := range s.Conflicts {
			add("conflict in " + c.Field + ": " + c.Reason)
		}
		for _, c := range s.Skipped {
			add("skipped " + c.Field)
		}
		all = append(all, text)
	}
	return all
}

// Objects whose change causes a rollout, pods that have a node, and existing objects stay unchanged.
func TestSpreadAppliesToNewPodsOnly(t *testing.T) {
	const template = `{metadata: {namespace: shop}, spec: {template: {metadata: {labels: {app: web}}, spec: {}}}}`
	const owned = `{metadata: {namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: d, uid: u, controller: true}]}, spec: {}}`
	for claim, test := range map[string]struct {
		kind   schema.GroupKind
		update bool
		object string
		want   bool
	}{
		"a pod":                             {podKind(), false, `{spec: {}}`, true},
		"a pod of a ReplicaSet":             {podKind(), false, fmt.Sprintf(owned, "ReplicaSet"), true},
		"a pod that is updated":             {podKind(), true, `{spec: {}}`, false},
		"a pod of a DaemonSet":              {podKind(), false, fmt.Sprintf(owned, "DaemonSet"), false},
		"a mirror pod":                      {podKind(), false, `{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {}}`, false},
		"a Deployment":                      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, false, template, false},
		"a Deployment that is updated":      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, true, template, false},
		"a StatefulSet":                     {schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, false, template, false},
		"a ReplicaSet without a controller": {schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, false, template, false},
		"a Job":                             {schema.GroupKind{Group: "batch", Kind: "Job"}, false, template, false},
	} {
		t.Run(claim, func(t *testing.T) {
			o := readObject(t, test.kind, test.update, jsonOf(t, test.object))
			protectors := []scheduling.Protector{newProtector("core", "web", "z")}
			policy := policyOf(t, "one", `{targets: [Pods, PodTemplates], templateUpdates: Inject, schedulerName: mine}`)
			result, err := scheduling.Merge(o, []*scheduling.Policy{policy}, protectors)
			if err != nil {
				t.Fatal(err)
			}
			injected := slices.ContainsFunc(result.Spreads, func(s scheduling.SpreadOutcome) bool { return len(s.Injected) > 0 })
			if injected != test.want {
				t.Errorf("got spreads %+v and patch %s", result.Spreads, result.Patch)
			}
			if !test.want && slices.Contains(conflicts(result), spreadZ) {
				t.Errorf("got a conflict, want none")
			}
		})
	}
}

// The pods of each template of a Deployment are spread separately. Otherwise a rollout would leave the new pods where the old ones
// were not.
func TestDeploymentRevisionsAreSpreadSeparately(t *testing.T) {
	const hash = "pod-template-hash"
	byHash := &v1alpha1.PodSelector{MatchLabels: map[string]string{hash: "5d8f"}}
	someHash := &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: hash, Operator: "Exists"}}}
	for claim, test := range map[string]struct {
		labels    string
		protector scheduling.Protector
		want      any
	}{
		"a pod of a Deployment":                  {`{app: web, pod-template-hash: 5d8f}`, newProtector("core", "web", "z"), []any{hash}},
		"of a protector of all pods":             {`{pod-template-hash: 5d8f}`, newProtector("core", "web", "z", withSelector(&v1alpha1.PodSelector{})), []any{hash}},
		"another pod":                            {`{app: web, controller-revision-hash: 5d8f}`, newProtector("core", "web", "z"), nil},
		"of a protector of one revision":         {`{pod-template-hash: 5d8f}`, newProtector("core", "web", "z", withSelector(byHash)), nil},
		"of a protector that selects a revision": {`{pod-template-hash: 5d8f}`, newProtector("core", "web", "z", withSelector(someHash)), nil},
	} {
		t.Run(claim, func(t *testing.T) {
			made := jsonOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: `+test.labels+`}, spec: {}}`)
			got, result := mergePolicies(t, podKind(), made, nil, test.protector)
			all, _ := valueOf(t, got)["spec"].(map[string]any)["topologySpreadConstraints"].([]any)
			if len(all) != 1 || len(result.Spreads) != 1 {
				t.Fatalf("got constraints %v and spreads %+v, want one", all, result.Spreads)
			}
			if diff := gocmp.Diff(test.want, all[0].(map[string]any)["matchLabelKeys"]); diff != "" {
				t.Errorf("matchLabelKeys differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpreadOf(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	cells := func(names ...string) (all []v1alpha1.PodProtectorCell) {
		for _, name := range names {
			all = append(all, v1alpha1.PodProtectorCell{CellID: name})
		}
		return all
	}
	for claim, test := range map[string]struct {
		spread *v1alpha1.Spread
		cells  []v1alpha1.PodProtectorCell
		want   *scheduling.Spread
	}{
		"nothing without a spread":             {nil, cells("here"), nil},
		"nothing by default":                   {&v1alpha1.Spread{TopologyKey: zone}, cells("here"), nil},
		"nothing to audit":                     {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadAudit}, cells("here"), nil},
		"nothing of cells":                     {&v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, Enforcement: v1alpha1.SpreadSchedule}, cells("here"), nil},
		"to distribute":                        {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadSchedule}, cells("here"), &scheduling.Spread{TopologyKey: zone, SingleCell: true}},
		"minDomains of one cell":               {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadSchedule, MinDomains: ptr.To[int32](2)}, cells("here"), &scheduling.Spread{TopologyKey: zone, MinDomains: ptr.To[int32](2), SingleCell: true}},
		"minDomains of several cells":          {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadSchedule, MinDomains: ptr.To[int32](2)}, cells("here", "there"), &scheduling.Spread{TopologyKey: zone, MinDomains: ptr.To[int32](2)}},
		"minDomains, possibly of another cell": {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadSchedule, MinDomains: ptr.To[int32](2)}, cells("there"), &scheduling.Spread{TopologyKey: zone, MinDomains: ptr.To[int32](2)}},
		"minDomains before the first count":    {&v1alpha1.Spread{TopologyKey: zone, Enforcement: v1alpha1.SpreadSchedule, MinDomains: ptr.To[int32](2)}, nil, &scheduling.Spread{TopologyKey: zone, MinDomains: ptr.To[int32](2)}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Spec.Spread, p.Status.Cells = test.spread, test.cells
			if diff := gocmp.Diff(test.want, scheduling.SpreadOf(p, "here")); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
}

// randomProtectors returns protectors with unique names within each core cluster.
func randomProtectors(t *rapid.T) (all []scheduling.Protector) {
	for i := range rapid.IntRange(0, 4).Draw(t, "protectors") {
		p := newProtector(rapid.SampledFrom([]string{"core", "other"}).Draw(t, "core"), fmt.Sprint("p-", i), rapid.SampledFrom([]string{"x", "z"}).Draw(t, "key"))
		if rapid.IntRange(0, 3).Draw(t, "domains") == 0 {
			withMinDomains(rapid.Bool().Draw(t, "alone"))(&p)
		}
		switch rapid.IntRange(0, 5).Draw(t, "what of it") {
		case 0:
			p.Spread = nil
		case 1:
			p.Selector = nil
		case 2:
			p.Selector = &v1alpha1.PodSelector{}
		}
		all = append(all, p)
	}
	return rapid.Permutation(all).Draw(t, "order")
}

// Spreads add exactly what a simple walk over the protectors adds to a pod that has its policies, and do not change the policies'
// fields.
func TestSpreadsAreAddedAfterPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies, protectors := randomPolicies(t), randomProtectors(t)
		before := pod(t, written(t, randomSpec(t, true)))
		unspread := slices.Clone(protectors)
		for i := range unspread {
			unspread[i].Spread = nil
		}
		want, plain := mergePolicies(t, podKind(), before, policies, unspread...)
		got, result := mergePolicies(t, podKind(), before, policies, protectors...)
		if !slices.Equal(conflicts(plain), conflicts(result)) {
			t.Fatalf("got conflicts in %v with spreads, want %v as without", conflicts(result), conflicts(plain))
		}
		wanted := valueOf(t, want)
		walk(t, wanted["spec"].(map[string]any), protectors)
		if diff := gocmp.Diff(wanted, valueOf(t, got)); diff != "" {
			t.Fatalf("result differs (-want +got):\n%s", diff)
		}
		if _, again := mergePolicies(t, podKind(), got, policies, protectors...); again.Patch != nil {
			t.Fatalf("second merge changed the object: %s", again.Patch)
		}
		other, _ := mergePolicies(t, podKind(), before, policies, rapid.Permutation(protectors).Draw(t, "another order")...)
		if diff := gocmp.Diff(valueOf(t, got), valueOf(t, other)); diff != "" {
			t.Fatalf("order of protectors changed the pod:\n%s", diff)
		}
	})
}

// walk adds the spreads of protectors to a pod's spec, in a slow and simple way.
func walk(t *rapid.T, spec map[string]any, protectors []scheduling.Protector) {
	sorted := slices.Clone(protectors)
	slices.SortFunc(sorted, func(a, b scheduling.Protector) int { return cmp.Compare(a.Core+"/"+a.Name, b.Core+"/"+b.Name) })
	for _, p := range sorted {
		has, _ := spec["topologySpreadConstraints"].([]any)
		taken := slices.ContainsFunc(has, func(had any) bool {
			of := had.(map[string]any)
			return p.Spread != nil && of["topologyKey"] == p.Spread.TopologyKey && of["whenUnsatisfiable"] == "DoNotSchedule"
		})
		if p.Spread == nil || p.Selector == nil || taken || spec["nodeName"] != nil {
			continue
		}
		constraint := object{"maxSkew": 1, "topologyKey": p.Spread.TopologyKey, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor", "labelSelector": p.Selector}
		if p.Spread.MinDomains != nil && p.Spread.SingleCell {
			constraint["minDomains"] = *p.Spread.MinDomains
		}
		spec["topologySpreadConstraints"] = append(has, valueOf(t, []byte(written(t, constraint))))
	}
}
