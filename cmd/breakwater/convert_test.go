package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
)

// runConvert runs the command and returns its standard output and standard error.
func runConvert(t *testing.T, in string, arguments ...string) (out, log string, err error) {
	t.Helper()
	return runCommand(t, in, append([]string{"convert"}, arguments...)...)
}

// writeFiles writes files to a new folder.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const budget = `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
  "spec": {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": {"app": "web"}}}}`

const budgetConverted = `apiVersion: breakwater.dev/v1alpha1
kind: PodProtector
metadata:
  name: web
spec:
  minAvailable: 1
  operations:
  - Delete
  - Evict
  selector:
    matchLabels:
      app: web
`

func TestConvertReadsEveryFormat(t *testing.T) {
	yamlBudget := "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: web\n  creationTimestamp: null\nspec:\n  minAvailable: 1\n" +
		"  unhealthyPodEvictionPolicy: AlwaysAllow\n  selector:\n    matchLabels: {app: web}\nstatus: {currentHealthy: 3}\n"
	bare := `{"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": {"app": "web"}}}}`
	for claim, text := range map[string]string{
		"JSON":                           budget,
		"YAML":                           yamlBudget,
		"YAML with empty documents":      "---\n# nothing\n---\n" + yamlBudget + "---\n",
		"YAML with Windows line endings": strings.ReplaceAll("---\n"+yamlBudget+"---\n", "\n", "\r\n"),
		"a List":                         `{"apiVersion": "v1", "kind": "List", "items": [` + budget + `]}`,
		"a List in a List":               `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [` + budget + `]}]}`,
		"a list of the kind, as returned by the API": `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudgetList", "items": [` + bare + `]}`,
		"chart values in an earlier document":        "replicas: 3\n---\n" + yamlBudget,
		"a list of values in an earlier document":    "- a\n- b\n---\n" + yamlBudget,
		"another kind in an earlier document":        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n---\n" + yamlBudget,
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := runConvert(t, text, "-f", "-")
			if err != nil {
				t.Fatal(err)
			}
			want := "---\n# From PodDisruptionBudget web in standard input.\n" + budgetConverted
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("output (-want +got):\n%s\n%s", diff, log)
			}
		})
	}
}

func TestConvertReadsFolders(t *testing.T) {
	named := func(name string) string { return strings.Replace(budget, `"web"`, `"`+name+`"`, 1) }
	dir := writeFiles(t, map[string]string{"b.yaml": named("b"), "a.yml": named("a"), "c.json": named("c"), "notes.txt": "{", "deep/d.yaml": named("d")})
	for claim, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"the files of a folder":         {[]string{"-f", dir}, "a b c"},
		"files of subfolders":           {[]string{"-f", dir, "-R"}, "a b c d"},
		"several":                       {[]string{"-f", filepath.Join(dir, "deep"), "-f", filepath.Join(dir, "b.yaml")}, "b d"},
		"a file with another extension": {[]string{"-f", filepath.Join(dir, "a.yml")}, "a"},
	} {
		t.Run(claim, func(t *testing.T) {
			out, _, err := runConvert(t, "", test.arguments...)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for line := range strings.Lines(out) {
				if name, found := strings.CutPrefix(line, "  name: "); found {
					names = append(names, strings.TrimSpace(name))
				}
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("converted %q, want %q", got, test.want)
			}
		})
	}
}

func TestConvertWarnings(t *testing.T) {
	other := strings.Replace(budget, `"web"`, `"other"`, 1)
	zero := `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "zero"}, "spec": {"minAvailable": 1}}`
	text := budget + "\n---\n" + other + "\n---\n" + zero + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n---\na: b"
	_, log, err := runConvert(t, text, "-f", "-", "--accept", "OneCluster,BothMustAdmit")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(log) {
		words := strings.SplitAfterN(strings.TrimSpace(line), ": ", 4)
		got = append(got, strings.Join(words[:len(words)-1], ""))
	}
	// The loop above drops the text after the last of the first three colons: the message of a warning, or the end of a note.
	want := []string{
		"warning: not converted: ProtectsNothing: ",
		"warning: EvictionsOnly: 2 PodDisruptionBudgets (other, web), each: ",
		"accepted: OneCluster: 2 PodDisruptionBudgets (other, web), each: ",
		"accepted: BothMustAdmit: PodDisruptionBudget web in standard input: ",
		"note: skipped document 5 of standard input: ", "note: skipped objects that are not converted: ", "note: ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("standard error (-want +got):\n%s\n%s", diff, log)
	}
	for _, want := range []string{"PodDisruptionBudget zero in standard input: it has no selector", "not converted: 1 ConfigMap\n", "note: 2 PodProtectors " +
		"created from 3 objects\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("standard error does not contain %q:\n%s", want, log)
		}
	}
}

func TestConvertFailOnWarning(t *testing.T) {
	for claim, test := range map[string]struct {
		arguments []string
		fails     bool
	}{
		"warnings are not failures by default": {nil, false},
		"warnings are failures on request":     {[]string{"--fail-on-warning"}, true},
		"accepted warnings":                    {[]string{"--fail-on-warning", "--accept", "EvictionsOnly,OneCluster"}, false},
		"a warning that is not accepted":       {[]string{"--fail-on-warning", "--accept", "EvictionsOnly"}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			out, log, err := runConvert(t, budget, append([]string{"-f", "-"}, test.arguments...)...)
			var exit cli.ExitError
			if errors.As(err, &exit) != test.fails || test.fails && exit.Code != commands.ExitWarnings || !test.fails && err != nil {
				t.Errorf("error %v, want exit code %d: %v\n%s", err, commands.ExitWarnings, test.fails, log)
			}
			if test.fails && out != "" {
				t.Errorf("convert failed but wrote manifests:\n%s", out)
			}
		})
	}
}

func TestConvertRejectsUnreadableInput(t *testing.T) {
	dir := writeFiles(t, map[string]string{"chart.yaml": "spec: {{ .Values.spec }}\n", "broken.json": `{"kind": `})
	for claim, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"a missing file":           {[]string{"-f", dir + "/none.yaml"}, "--filename: stat "},
		"a template":               {[]string{"-f", dir + "/chart.yaml"}, "chart.yaml, document 1: "},
		"a truncated file":         {[]string{"-f", dir + "/broken.json"}, "broken.json, document 1: "},
		"an unknown reason":        {[]string{"-f", dir, "--accept", "All"}, `--accept "All" is not a reason`},
		"files and a cluster":      {[]string{"-f", dir, "--context", "c"}, "--filename reads files"},
		"files and all namespaces": {[]string{"-f", dir, "-A"}, "--filename reads files"},
		"one namespace and all":    {[]string{"-n", "shop", "-A"}, "either --namespace or --all-namespaces"},
		"a missing kubeconfig":     {[]string{"--kubeconfig", dir + "/none"}, "--kubeconfig: load kubeconfig"},
		"an argument without -f":   {[]string{"shop.yaml"}, "unknown command"},
		"a missing cluster":        {[]string{"--kubeconfig", dir + "/none", "-A"}, "--kubeconfig: load kubeconfig"},
	} {
		t.Run(claim, func(t *testing.T) {
			out, _, err := runConvert(t, "", test.arguments...)
			if err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
				t.Errorf("error %v, want one that contains %q\n%s", err, test.want, out)
			}
		})
	}
}
