package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func doNothing(*cobra.Command, []string) error { return nil }

func TestReferencePage(t *testing.T) {
	root := &cobra.Command{Use: "kubectl-tide", Long: "Tides come.\n\n  tide in | out\n\nAnd go_away <now>.", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tide"}}
	root.PersistentFlags().StringP("namespace", "n", "", "`name` of a namespace")
	in := &cobra.Command{Use: "in PLACE", Short: "Let it in", Example: "  kubectl tide in harbour", RunE: doNothing}
	in.Flags().Int("height", 3, "how `many|all` metres, of `0` or more")
	in.Flags().Bool("secret", false, "not told")
	if err := in.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(in, &cobra.Command{Use: "hidden", Hidden: true, RunE: doNothing}, cli.ReferenceCommand())
	want := strings.ReplaceAll(`# Commands of kubectl tide

This page is generated from the program; ~--help~ prints the same text.

| command | |
| --- | --- |
| [kubectl tide](#kubectl-tide) |  |
| [kubectl tide in](#kubectl-tide-in) | Let it in |

## kubectl tide

Tides come.

~~~
tide in | out
~~~

And go\_away \<now>.

| flag | default | meaning |
| --- | --- | --- |
| ~-n, --namespace name~ |  | name of a namespace |

## kubectl tide in

Let it in.

~~~
kubectl tide in PLACE [flags]
~~~

~~~
  kubectl tide in harbour
~~~

| flag | default | meaning |
| --- | --- | --- |
| ~--height many\|all~ | ~3~ | how many\|all metres, of ~0~ or more |

The command also has the flags of [kubectl tide](#kubectl-tide).
`, "~", "`")
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"reference"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
