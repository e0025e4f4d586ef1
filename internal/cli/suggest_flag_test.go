package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestUnknownFlagSuggestsNearest(t *testing.T) {
	for line, want := range map[string]string{
		"--namspace x":          "unknown flag: --namspace: did you mean --namespace?",
		"--core-kubeconfg=x":    "did you mean --core-kubeconfig?",
		"--admission-dead 3s":   "did you mean --admission-deadline?",
		"--something-else":      "unknown flag: --something-else: breakwater webhook --help shows all",
		"--secre x":             "breakwater webhook --help shows all",
		"-x":                    "unknown shorthand flag: 'x' in -x",
		"--admission-deadline=": `invalid argument ""`,
	} {
		root := &cobra.Command{Use: "breakwater", SilenceErrors: true, SilenceUsage: true}
		root.SetFlagErrorFunc(suggestFlag)
		webhook := &cobra.Command{Use: "webhook", Run: func(*cobra.Command, []string) {}}
		root.PersistentFlags().String("namespace", "", "")
		webhook.Flags().Duration("admission-deadline", 0, "")
		webhook.Flags().String("core-kubeconfig", "", "")
		webhook.Flags().String("secret", "", "")
		if err := webhook.Flags().MarkHidden("secret"); err != nil {
			t.Fatal(err)
		}
		root.AddCommand(webhook)
		root.SetOut(io.Discard)
		root.SetArgs(append([]string{"webhook"}, strings.Fields(line)...))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
