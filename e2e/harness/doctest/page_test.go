package doctest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

const root = "../../.."

// Each console block of the tree says how a test runs it, or why none does.
func TestEveryCommandHasADirective(t *testing.T) {
	all, err := doctest.All(root)
	if err != nil {
		t.Error(err)
	}
	run, left := 0, 0
	for _, page := range all {
		for _, step := range page.Steps {
			switch {
			case step.Run == nil:
			case step.Run.Environment == "":
				left++
			default:
				run++
			}
		}
	}
	t.Logf("%d blocks run, %d do not", run, left)
	if run == 0 {
		t.Error("no page has a block that runs")
	}
}

func TestPageStepsKeepTheirOrder(t *testing.T) {
	source := strings.ReplaceAll(`# Title

~yaml
# web.yaml
kind: Pod
~

1. In a list:

   <!-- prepare: touch a
   touch b -->
   <!-- run: federation; exit: 1; wrapped -->
   ~console
   $ kubectl delete pod web
   Error
   from server
   ~

<!-- do: break it -->
<!-- an ordinary comment -->
<!-- not run: it takes a day -->
~console
$ make world
~
`, "~", "```")
	page, err := doctest.Parse("docs/a.md", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want := []doctest.Step{
		{Line: 4, File: "web.yaml", Content: "# web.yaml\nkind: Pod\n"},
		{Line: 10, Prepare: "touch a\ntouch b"},
		{Line: 14, Run: &doctest.Block{
			Directive: doctest.Directive{Environment: doctest.Federation, Exit: 1, Wrapped: true},
			Commands:  []doctest.Command{{Line: 14, Text: "kubectl delete pod web", Output: "Error\nfrom server"}},
		}},
		{Line: 19, Hook: "break it"},
		{Line: 23, Run: &doctest.Block{
			Directive: doctest.Directive{Reason: "it takes a day"}, Commands: []doctest.Command{{Line: 23, Text: "make world"}},
		}},
	}
	if diff := cmp.Diff(want, page.Steps); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestIncompleteCommandsContinueOnTheNextLine(t *testing.T) {
	source := strings.ReplaceAll(`<!-- run: shell -->
~console
$ echo one \
    two   # not 'open
$ echo 'three
four' | # a pipe
  cat
ashes
$ cat <<'END' | cat
$ five
END
$ echo "it's" it\'s &&
  echo six
~
`, "~", "```")
	page, err := doctest.Parse("a.md", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want := []doctest.Command{
		{Line: 3, Text: "echo one \\\n    two   # not 'open"},
		{Line: 5, Text: "echo 'three\nfour' | # a pipe\n  cat", Output: "ashes"},
		{Line: 9, Text: "cat <<'END' | cat\n$ five\nEND"},
		{Line: 12, Text: "echo \"it's\" it\\'s &&\n  echo six"},
	}
	if diff := cmp.Diff(want, page.Steps[0].Run.Commands); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestInvalidPagesAreRejected(t *testing.T) {
	for claim, c := range map[string]struct{ source, want string }{
		"a console block without a directive":    {"~console\n$ ls\n~\n", "a.md:2: a console block needs a comment"},
		"a directive that is not before a block": {"<!-- run: shell -->\n\nText.\n\n~console\n$ ls\n~\n", "a.md:1: a directive must be immediately before"},
		"a directive at the end":                 {"Text.\n\n<!-- run: shell -->\n", "a.md:3: a directive must be immediately before"},
		"an empty reason":                        {"<!-- not run: -->\n~console\n$ ls\n~\n", "want a reason"},
		"an environment that does not exist":     {"<!-- run: moon -->\n~console\n$ ls\n~\n", `environment "moon"`},
		"an option that does not exist":          {"<!-- run: shell; twice -->\n~console\n$ ls\n~\n", `option "twice"`},
		"an invalid exit code":                   {"<!-- run: shell; exit: bad -->\n~console\n$ ls\n~\n", "bad"},
		"output before a command":                {"<!-- run: shell -->\n~console\nhello\n~\n", "must begin with a command"},
		"an open quote":                          {"<!-- run: shell -->\n~console\n$ echo 'a\n~\n", "is incomplete"},
		"a block without a command":              {"<!-- run: shell -->\n~console\n~\n", "is incomplete"},
		"a hook between directive and block":     {"<!-- run: shell -->\n<!-- do: it -->\n~console\n$ ls\n~\n", "a directive must be immediately before"},
		"another block after a directive":        {"<!-- run: shell -->\n~text\n~\n~console\n$ ls\n~\n", "a directive must be immediately before"},
		"a second directive for the same block":  {"<!-- run: shell -->\n\n<!-- run: shell -->\n~console\n$ ls\n~\n", "a directive must be immediately before"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := doctest.Parse("a.md", []byte(strings.ReplaceAll(c.source, "~", "```")))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
