package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestUnknownNestedCommandFails(t *testing.T) {
	for line, want := range map[string]struct{ err, out string }{
		"node drian node-1":        {`unknown command "drian" for "breakwater node"` + "\n\nDid you mean this?\n\tdrain", ""},
		"--color never node drian": {"Did you mean this?\n\tdrain", ""},
		"node reboot":              {`Run 'breakwater node --help' for usage.`, ""},
		"nod":                      {`unknown command "nod" for "breakwater"`, ""},
		"node":                     {"", "breakwater node [command]"},
		"node drian --help":        {"", "breakwater node [command]"},
		"node drain node-1":        {"", "drained node-1"},
	} {
		root := &cobra.Command{Use: "breakwater", SilenceErrors: true, SilenceUsage: true}
		root.PersistentFlags().String("color", "", "")
		node := &cobra.Command{Use: "node", Args: cobra.NoArgs}
		node.AddCommand(&cobra.Command{Use: "drain NODE", Run: func(c *cobra.Command, nodes []string) { c.Println("drained", nodes[0]) }})
		root.AddCommand(node)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(line))
		err := execute(t.Context(), root)
		switch {
		case want.err == "" && err != nil, want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
			t.Errorf("execute(%q) returned error %v, want %q", line, err, want.err)
		case !strings.Contains(out.String(), want.out), want.out == "" && out.Len() > 0:
			t.Errorf("execute(%q) printed %q, want %q", line, out.String(), want.out)
		}
	}
}
