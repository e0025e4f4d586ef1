package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// explain runs the command and returns its standard output and standard error.
func explain(t *testing.T, in string, arguments ...string) (out, log string, err error) {
	t.Helper()
	return runCommand(t, in, append([]string{"explain", "scheduling"}, arguments...)...)
}

// fromFiles returns arguments that need no cluster.
func fromFiles(more ...string) []string {
	return append([]string{"--policies", "testdata/explain/policies.yaml"}, more...)
}

func wanted(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestExplainObjects(t *testing.T) {
	for output, file := range map[string]string{"table": "objects.want.txt", "yaml": "objects.want.yaml", "json": "objects.want.json", "patch": "objects.want.patches"} {
		t.Run(output, func(t *testing.T) {
			out, log, err := explain(t, wanted(t, "testdata/explain/objects.yaml"),
				fromFiles("-f", "-", "-n", "shop", "--namespace-labels", "env=prod", "-o", output)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wanted(t, "testdata/explain/"+file), out); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			const conflict = `conflict: Pod shop/web-1: PodSchedulingPolicy shop/pool: nodeSelector[pool]: has "old", want "web": the object keeps its own value`
			if beside := output == "yaml" || output == "patch"; strings.Contains(log, conflict) != beside {
				t.Errorf("standard error contains conflicts: %v, want %v\n%s", !beside, beside, log)
			}
		})
	}
}

func TestExplainDenials(t *testing.T) {
	for _, output := range []string{"table", "yaml", "json", "patch"} {
		t.Run(output, func(t *testing.T) {
			out, _, err := explain(t, "", fromFiles("-f", "testdata/explain/refused.yaml", "-o", output)...)
			const refusal = "pods of CronJob shop/report would be denied: nodeSelector[pool] of /spec contradicts ClusterPodSchedulingPolicy batch: "
			if err == nil || !strings.HasPrefix(err.Error(), refusal) || !strings.Contains(err.Error(), "set conflictPolicy of the policy to KeepExisting") {
				t.Errorf("error %v, want one with prefix %q and a remedy", err, refusal)
			}
			if out == "" || strings.Contains(out, "kind: Pod") {
				t.Errorf("output contains a denied object, or nothing:\n%s", out)
			}
		})
	}
}

// A denied workload has no pods.
func TestExplainStopsAtDeniedTemplate(t *testing.T) {
	const policy = `{apiVersion: breakwater.dev/v1alpha1, kind: PodSchedulingPolicy, metadata: {name: p},
  spec: {podSelector: {}, targets: [Pods, PodTemplates], conflictPolicy: Reject, schedulerName: mine}}`
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {schedulerName: other}}}}`
	out, _, err := explain(t, deployment, "--policies", writeFiles(t, map[string]string{"p.yaml": policy}), "-f", "-")
	if err == nil || !strings.HasPrefix(err.Error(), "Deployment default/web would be denied: ") || strings.Contains(out, "pods of") {
		t.Errorf("error %v, output:\n%s", err, out)
	}
}

// A policy can change a template differently on update than on creation.
func TestExplainUpdates(t *testing.T) {
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop},
  spec: {template: {metadata: {labels: {app: web}}, spec: {}}}}`
	for claim, test := range map[string]struct {
		arguments []string
		patched   bool
	}{
		"created": {nil, true},
		"updated": {[]string{"--update"}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			out, _, err := explain(t, deployment, fromFiles(append(test.arguments, "-f", "-", "-o", "json")...)...)
			if err != nil {
				t.Fatal(err)
			}
			var steps []explained
			if err := json.Unmarshal([]byte(out), &steps); err != nil {
				t.Fatal(err)
			}
			if len(steps) != 2 || (len(steps[0].Patch) > 0) != test.patched || len(steps[1].Patch) == 0 {
				t.Errorf("want the template patched: %v, and its pods patched; got %s", test.patched, out)
			}
		})
	}
}

func TestExplainUsesNamespaceLabels(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}`
	const named = `{apiVersion: breakwater.dev/v1alpha1, kind: ClusterPodSchedulingPolicy, metadata: {name: named},
  spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}, podSelector: {}, schedulerName: mine}}`
	dir := writeFiles(t, map[string]string{"named.yaml": named})
	for claim, test := range map[string]struct {
		arguments  []string
		want, note string
	}{
		"matching labels":                   {fromFiles("--namespace-labels", "env=prod"), "Pod default/p: 1 of 4 policies", ""},
		"others":                            {fromFiles("--namespace-labels", "env=test"), "Pod default/p: 0 of 4 policies", ""},
		"none":                              {fromFiles(), "Pod default/p: 0 of 4 policies", "the labels of the namespaces are unknown"},
		"the name, which is always a label": {[]string{"--policies", dir, "-n", "shop"}, "Pod shop/p: 1 of 1 policy", ""},
		"another name":                      {[]string{"--policies", dir}, "Pod default/p: 0 of 1 policy", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := explain(t, pod, append(test.arguments, "-f", "-")...)
			if err != nil || !strings.HasPrefix(out, test.want) {
				t.Errorf("error %v, output %q, want prefix %q", err, out, test.want)
			}
			if (log != "") != (test.note != "") || !strings.Contains(log, test.note) {
				t.Errorf("standard error %q, want %q", log, test.note)
			}
		})
	}
}

// A protector can target a workload. The protector's cells then record the pod selector of the workload.
func TestExplainUsesTargetsOfProtectors(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: web}}, spec: {}}`
	const policy = `{apiVersion: breakwater.dev/v1alpha1, kind: PodSchedulingPolicy, metadata: {name: zones}, spec: {protectorSelector: {},
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}}`
	const protector = `{apiVersion: breakwater.dev/v1alpha1, kind: PodProtector, metadata: {name: web}, spec: {minAvailable: 1,
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}`
	for claim, test := range map[string]struct{ status, want, note string }{
		"of these pods":            {`, status: {cells: [{cellID: a, aggregation: {target: {uid: u, replicas: 1, selector: "app in (web,www)"}}}]}`, `"values":["web","www"]`, ""},
		"of other pods":            {`, status: {cells: [{cellID: a, aggregation: {target: {uid: u, replicas: 1, selector: app=api}}}]}`, "patch: none", ""},
		"not resolved by any cell": {``, "patch: none", "PodProtector default/web is left out: it names Deployment web"},
	} {
		t.Run(claim, func(t *testing.T) {
			dir := writeFiles(t, map[string]string{"rules.yaml": policy + "\n---\n" + protector + test.status + "}\n"})
			out, log, err := explain(t, pod, "--policies", dir, "-f", "-")
			if err != nil || !strings.Contains(out, test.want) || !strings.Contains(log, test.note) || (log != "") != (test.note != "") {
				t.Errorf("error %v, want %q and the note %q:\n%s%s", err, test.want, test.note, out, log)
			}
		})
	}
}

func TestExplainRejectsUnreadableInput(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}`
	const policy = `{apiVersion: breakwater.dev/v1alpha1, kind: PodSchedulingPolicy, metadata: {name: p}, spec: {podSelector: %s, schedulerName: mine}}`
	dir := writeFiles(t, map[string]string{
		"pod.yaml": pod, "none.yaml": `{apiVersion: v1, kind: Pod, metadata: {name: p}}`, "service.yaml": `{apiVersion: v1, kind: Service, metadata: {name: s}}`,
		"word.yaml":     `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {a: 1}}}`,
		"cell.yaml":     `{apiVersion: breakwater.dev/v1alpha1, kind: Cell, metadata: {name: c}, spec: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}`,
		"unknown.yaml":  strings.Replace(policy, "%s", "{}, scheduler: x", 1),
		"selector.yaml": strings.Replace(policy, "%s", "{matchExpressions: [{key: a, operator: In}]}", 1),
	})
	for claim, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing to explain":             {nil, "--filename is required"},
		"a missing file":                 {[]string{"-f", dir + "/no.yaml"}, "--filename: stat "},
		"no pods":                        {fromFiles("-f", dir+"/service.yaml"), "contains no pod and no workload: provide one"},
		"a pod without a spec":           {fromFiles("-f", dir+"/none.yaml"), "Pod default/p in " + dir + "/none.yaml: read a Pod: spec is missing"},
		"a pod with an invalid field":    {fromFiles("-f", dir+"/word.yaml"), "read /spec: "},
		"an unknown format":              {fromFiles("-f", dir+"/pod.yaml", "-o", "wide"), `--output "wide": want table, yaml, json or patch`},
		"files and a cluster":            {fromFiles("-f", dir+"/pod.yaml", "--context", "c"), "--policies reads files"},
		"files and named clusters":       {fromFiles("-f", dir+"/pod.yaml", "--core", "a=b"), "--policies reads files"},
		"cores with two flags":           {[]string{"-f", dir + "/pod.yaml", "--context", "c", "--core", "a=b"}, "--core names each core cluster"},
		"a core without a kubeconfig":    {[]string{"-f", dir + "/pod.yaml", "--core", "a"}, "--core: "},
		"a duplicate core":               {[]string{"-f", dir + "/pod.yaml", "--core", "a=b", "--core", "a=c"}, `"a" is given twice`},
		"a malformed Cell":               {[]string{"-f", dir + "/pod.yaml", "--policies", dir + "/cell.yaml", "--cell", "c"}, "spec.podSelector: "},
		"labels from two flags":          {fromFiles("-f", dir+"/pod.yaml", "--namespace-labels", "a=b", "--cell-kubeconfig", "k"), "either --namespace-labels or --cell-kubeconfig"},
		"invalid labels":                 {fromFiles("-f", dir+"/pod.yaml", "--namespace-labels", "a"), "want KEY=VALUE"},
		"standard input twice":           {[]string{"-f", "-", "--policies", "-"}, "standard input can be read only once"},
		"an unknown field":               {[]string{"-f", dir + "/pod.yaml", "--policies", dir + "/unknown.yaml"}, `unknown field "spec.scheduler"`},
		"a malformed selector":           {[]string{"-f", dir + "/pod.yaml", "--policies", dir + "/selector.yaml"}, "spec.podSelector: "},
		"a missing kubeconfig of a core": {[]string{"-f", dir + "/pod.yaml", "--kubeconfig", dir + "/none"}, "kubeconfig"},
		"a missing kubeconfig of a cell": {fromFiles("-f", dir+"/pod.yaml", "--cell-kubeconfig", dir+"/none"), "--cell-kubeconfig: "},
		"an argument":                    {[]string{"pod.yaml"}, "unknown command"},
	} {
		t.Run(claim, func(t *testing.T) {
			out, _, err := explain(t, "", test.arguments...)
			if err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
				t.Errorf("error %v, want one that contains %q\n%s", err, test.want, out)
			}
		})
	}
}
