package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func TestHelpFitsATerminal(t *testing.T) {
	all := []*cobra.Command{rootCommand(genericiooptions.NewTestIOStreamsDiscard())}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
		arguments := append(strings.Fields(strings.TrimPrefix(all[i].CommandPath(), "kubectl breakwater")), "--help")
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		root := rootCommand(streams)
		root.SetArgs(arguments)
		if code := cli.ExitCode(t.Context(), root); code != 0 || out.Len() == 0 {
			t.Errorf("%v ends with code %d, and shows %q", arguments, code, out)
		}
		for line := range bytes.Lines(out.Bytes()) {
			text := strings.TrimSpace(string(line))
			isExample := strings.Contains(text, "kubectl breakwater ")
			if len([]rune(strings.TrimRight(string(line), "\n"))) > 80 && !isExample && strings.Contains(text, " ") {
				t.Errorf("%v shows a line that is wider than 80 columns: %q", arguments, line)
			}
		}
	}
	if len(all) < 15 {
		t.Errorf("%d commands were tried, want all", len(all))
	}
}
