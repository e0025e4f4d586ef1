package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// zones returns a protector of namespace shop that spreads the pods with app=web, with the given status.
func zones(name, status string) string {
	return fmt.Sprintf(`{apiVersion: breakwater.dev/v1alpha1, kind: PodProtector, metadata: {name: %s, namespace: shop}, spec: {minAvailable: 1,
  selector: {matchLabels: {app: web}}, spread: {topologyKey: zone, minDomains: 2, enforcement: Schedule}}%s}
---
`, name, status)
}

const (
	shopPod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {}}`
	field   = `topologySpreadConstraints[zone,DoNotSchedule]`
)

func TestExplainSpreads(t *testing.T) {
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {metadata: {labels: {app: web}}, spec: {}}}}`
	const counted = `, status: {cells: [{cellID: here, aggregation: {}}]}`
	const note = "note: only a webhook with --scheduling adds spreads"
	patch := func(besides string) string {
		return `patch: [{"op":"add","path":"/spec/topologySpreadConstraints","value":[{"labelSelector":{"matchLabels":{"app":"web"}},` + besides +
			`,"nodeTaintsPolicy":"Honor","topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}]` + "\n"
	}
	spread := `PodProtector shop/web spreads by zone: injects ` + field + "\n"
	skipped := `skipped: PodProtector shop/web: ` + field + `.minDomains: has nothing, want 2: minDomains applies to the domains of all cells, and a scheduler sees only those of its own cell` + "\n"
	for claim, test := range map[string]struct {
		rules, object, want string
		arguments           []string
		note                bool
	}{
		"of one cell":              {zones("web", counted), shopPod, "Pod shop/p: 0 of 0 policies applied\n" + spread + patch(`"maxSkew":1,"minDomains":2`), nil, true},
		"of another cell":          {zones("web", counted), shopPod, "Pod shop/p: 0 of 0 policies applied\n" + spread + skipped + patch(`"maxSkew":1`), []string{"--cell", "there"}, true},
		"that no cell has counted": {zones("web", ""), shopPod, "Pod shop/p: 0 of 0 policies applied\n" + spread + skipped + patch(`"maxSkew":1`), nil, true},
		"of the pods of a Deployment": {zones("web", counted), deployment, "Deployment shop/web: 0 of 0 policies applied\npatch: none, the object stays unchanged\n\n" +
			"pods of Deployment shop/web: 0 of 0 policies applied\n" + spread + patch(`"matchLabelKeys":["pod-template-hash"],"maxSkew":1,"minDomains":2`), nil, true},
		"of two protectors": {zones("web", counted) + zones("all", ""), shopPod, "Pod shop/p: 0 of 0 policies applied\n" +
			"PodProtector shop/all spreads by zone: injects " + field + "\nPodProtector shop/web spreads by zone: injects nothing\n" +
			strings.Replace(skipped, "shop/web", "shop/all", 1) + "conflict: PodProtector shop/web: " + field, nil, true},
		"audited spreads are ignored": {strings.Replace(zones("web", counted), "Schedule", "Audit", 1), shopPod, "Pod shop/p: 0 of 0 policies applied\npatch: none", nil, false},
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := explain(t, test.object, append(test.arguments, "--policies", writeFiles(t, map[string]string{"rules.yaml": test.rules}), "-f", "-")...)
			if err != nil || !strings.HasPrefix(out, test.want) {
				t.Errorf("error %v, output\n%s\nwant prefix\n%s", err, out, test.want)
			}
			if strings.Contains(log, note) != test.note {
				t.Errorf("standard error %q contains the note about spreads: %v, want %v", log, !test.note, test.note)
			}
		})
	}
}

func TestExplainSpreadsAsJSON(t *testing.T) {
	rules := writeFiles(t, map[string]string{"rules.yaml": zones("web", "")})
	out, _, err := explain(t, shopPod, "--policies", rules, "-f", "-", "-o", "json")
	var got []explained
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got) != 1 || len(got[0].Spreads) != 1 {
		t.Fatalf("error %v, output %s", err, out)
	}
	want := explainedSpread{"PodProtector shop/web", "zone", explainedEffect{
		Injected: []string{field},
		Skipped:  []explainedConflict{{field + ".minDomains", "nothing", "2", "minDomains applies to the domains of all cells, and a scheduler sees only those of its own cell"}},
	}}
	if diff := cmp.Diff(want, got[0].Spreads[0], cmp.AllowUnexported(explainedSpread{})); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
}

// Objects for which the webhook is not called, or that do not belong to its cell, remain unchanged.
func TestExplainSkippedObjects(t *testing.T) {
	const policy = `{apiVersion: breakwater.dev/v1alpha1, kind: ClusterPodSchedulingPolicy, metadata: {name: all},
  spec: {namespaceSelector: {}, podSelector: {}, conflictPolicy: Reject, schedulerName: mine}}
---
`
	pod := func(namespace string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ` + namespace + `, labels: {app: web}}, spec: {schedulerName: its}}`
	}
	cell := func(spec string) string {
		return `{apiVersion: breakwater.dev/v1alpha1, kind: Cell, metadata: {name: here}, spec: ` + spec + `}`
	}
	for claim, test := range map[string]struct {
		rules, object string
		arguments     []string
		why           string
	}{
		"a system namespace":                   {policy, pod("kube-system"), nil, "namespace kube-system is exempt according to --exempt-namespaces"},
		"Breakwater's namespace":               {policy, pod("breakwater-system"), nil, "namespace breakwater-system is exempt"},
		"a namespace of the flag":              {policy, pod("shop"), []string{"--exempt-namespaces", "shop,bar"}, "namespace shop is exempt"},
		"a namespace that is not in the flag":  {policy, pod("kube-system"), []string{"--exempt-namespaces", "shop,bar"}, ""},
		"a namespace with the exempt label":    {policy, pod("shop"), []string{"--namespace-labels", "breakwater.dev/exempt=true"}, "namespace shop has the label breakwater.dev/exempt=true"},
		"a namespace with another label value": {policy, pod("shop"), []string{"--namespace-labels", "breakwater.dev/exempt=false"}, ""},
		"pods of namespaces outside the cell":  {policy + cell(`{namespaces: [bar]}`), pod("shop"), []string{"--cell", "here"}, "Cell here does not include the pods"},
		"pods with labels outside the cell":    {policy + cell(`{podSelector: {matchLabels: {app: api}}}`), pod("shop"), []string{"--cell", "here"}, "Cell here does not include the pods"},
		"not pods of the cell":                 {policy + cell(`{namespaces: [shop]}`), pod("shop"), []string{"--cell", "here"}, ""},
		"not pods of a cell that is not read":  {policy + cell(`{namespaces: [bar]}`), pod("shop"), []string{"--cell", "there"}, ""},
		"not pods without a cell":              {policy + cell(`{namespaces: [bar]}`), pod("shop"), nil, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			rules := writeFiles(t, map[string]string{"rules.yaml": test.rules})
			for _, output := range []string{"table", "yaml", "json", "patch"} {
				out, log, err := explain(t, test.object, append(test.arguments, "--policies", rules, "-f", "-", "-o", output)...)
				if (err == nil) != (test.why != "") {
					t.Fatalf("error %v of a policy that rejects; want it applied: %v", err, test.why == "")
				}
				if all := out + log; test.why != "" && !strings.Contains(all, test.why) {
					t.Errorf("-o %s does not contain %q:\n%s", output, test.why, all)
				}
				if noted := strings.Contains(log, "Cell there does not exist"); noted != strings.Contains(claim, "not read") {
					t.Errorf("standard error %q", log)
				}
			}
		})
	}
}

// Targets of another cell, or of an earlier spec of the protector, are not used.
func TestExplainUsesTargetsOfCell(t *testing.T) {
	const policy = `{apiVersion: breakwater.dev/v1alpha1, kind: PodSchedulingPolicy, metadata: {name: p, namespace: shop}, spec: {protectorSelector: {}, schedulerName: mine}}
---
`
	protector := func(aggregation string) string {
		return `{apiVersion: breakwater.dev/v1alpha1, kind: PodProtector, metadata: {name: web, namespace: shop}, spec: {minAvailable: 1,
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}, status: {cells: [{cellID: here, aggregation: {` + aggregation + `}}]}}`
	}
	const target = `target: {uid: u, replicas: 1, selector: app=web}`
	spec := "countedSpec: '" + quota.CountedSpec(&v1alpha1.PodProtectorSpec{TargetRef: &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}) + "'"
	for claim, test := range map[string]struct {
		aggregation, cell string
		want              bool
	}{
		"of the cell":               {target + ", " + spec, "here", true},
		"of another cell":           {target + ", " + spec, "there", false},
		"of any cell":               {target, "", true},
		"by another spec":           {target + `, countedSpec: old`, "here", false},
		"with void counts":          {target + ", " + spec + ", void: true", "here", false},
		"without a resolved target": {spec, "here", false},
	} {
		t.Run(claim, func(t *testing.T) {
			rules := writeFiles(t, map[string]string{"rules.yaml": policy + protector(test.aggregation)})
			out, log, err := explain(t, shopPod, "--policies", rules, "-f", "-", "--cell", test.cell)
			if err != nil || strings.HasPrefix(out, "Pod shop/p: 1 of 1") != test.want {
				t.Errorf("error %v, want it covered: %v\n%s", err, test.want, out)
			}
			if strings.Contains(log, "PodProtector shop/web is left out") == test.want {
				t.Errorf("standard error %q", log)
			}
		})
	}
}
