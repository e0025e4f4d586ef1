package main

import (
	"bytes"
	"strings"
	"testing"
)

// ask runs a command to its end.
func ask(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	output := &bytes.Buffer{}
	command := rootCommand()
	command.SetOut(output)
	command.SetArgs(arguments)
	err := command.ExecuteContext(t.Context())
	return output.String(), err
}

func TestFlagsOfCells(t *testing.T) {
	hook := []string{"webhook-config", "--cell", "a", "--url", "https://a:1"}
	for claim, test := range map[string]struct {
		arguments []string
		refusal   string
		words     []string
	}{
		"all cells and one":             {[]string{"aggregator", "--all-cells", "--cell", "a"}, "leave out --cell", nil},
		"all cells, and a way to one":   {[]string{"aggregator", "--all-cells", "--kubeconfig", "a"}, "leave out --cell, --kubeconfig", nil},
		"no cell":                       {[]string{"aggregator"}, `--cell "" is not the name of a Cell`, nil},
		"all cells of a core":           {[]string{"aggregator", "--all-cells", "--core-kubeconfig", "/nonexistent"}, "--core-kubeconfig: load kubeconfig", nil},
		"a core that is not there":      {[]string{"topology", "--kubeconfig", "/nonexistent"}, "--kubeconfig: load kubeconfig", nil},
		"a webhook without cells":       {[]string{"webhook", "--core", "a=/nonexistent", "--tls-cert", "x", "--tls-key", "x"}, "--core a=/nonexistent", nil},
		"a selector of all pods":        {append(hook, "--pod-selector", " "), "chooses all pods", nil},
		"a selector that is none":       {append(hook, "--pod-selector", "a in"), `--pod-selector "a in"`, nil},
		"a selector and namespaces":     {append(hook, "--pod-selector", "a=b", "--namespaces", "c"), "exclude each other", nil},
		"a configuration of namespaces": {append(hook, "--namespaces", "shop,bank"), "", []string{"operator: In\n      values:\n      - shop\n      - bank"}},
		"a configuration of labels": {
			append(hook, "--pod-selector", "zone=a"), "",
			[]string{"kind: ValidatingWebhookConfiguration", "---\n", "kind: ValidatingAdmissionPolicy\n", `labels[?"zone"]`, "kind: ValidatingAdmissionPolicyBinding"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			output, err := ask(t, test.arguments...)
			if test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)) || test.refusal == "" && err != nil {
				t.Fatalf("error %v, want %q", err, test.refusal)
			}
			for _, word := range test.words {
				if !strings.Contains(output, word) {
					t.Errorf("no %q in\n%s", word, output)
				}
			}
		})
	}
}
