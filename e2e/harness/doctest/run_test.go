package doctest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

func TestSessionKeepsStateAndReturnsExitCodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := doctest.Begin(ctx, t.TempDir(), []string{"WHO=reader"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	if err := s.Set("QUOTED", "it's"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command, output string
		code            int
	}{
		{"echo $WHO; X=3", "reader\n", 0},
		{"echo $X $QUOTED", "3 it's\n", 0},
		{"printf 'no newline'", "no newline", 0},
		{"echo wrong >&2; false", "wrong\n", 1},
		{"false | true", "", 1},
		{"cat", "", 0},
		{"cat <<END\nhere\nEND", "here\n", 0},
		{"(exit 7)", "", 7},
	} {
		out, code, err := s.Do(c.command)
		if err != nil || out != c.output || code != c.code {
			t.Errorf("%s: %q, %d, %v; want %q, %d", c.command, out, code, err, c.output, c.code)
		}
	}
	if _, _, err := s.Do("exit 0"); err == nil {
		t.Error("a command that ends the shell returned no error")
	}
}

// featurePage is a page that uses every feature.
const featurePage = `
~yaml
# web.yaml
kind: Pod
~

<!-- prepare: echo hidden >prepared -->
<!-- run: shell -->
~console
$ cat web.yaml prepared
# web.yaml
kind: Pod
hidden
$ true
~

<!-- do: open -->
<!-- run: shell; eventually -->
~console
$ test -e open && ls -1; echo x >>tries; test $(wc -l <tries) = 3 && echo "third of $BY"
…
third of hook
~

<!-- run: federation -->
~console
$ exit 3
~

<!-- run: shell; exit: 4 -->
~console
$ (exit 4)
~
`

func parse(t *testing.T, source string) doctest.Page {
	t.Helper()
	page, err := doctest.Parse("story.md", []byte(strings.ReplaceAll(source, "~", "```")))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestAPageIsRun(t *testing.T) {
	folder := t.TempDir()
	opened := false
	parse(t, featurePage).Run(t, doctest.Options{Environments: []doctest.Environment{doctest.Shell}, Folder: folder, Hooks: map[string]func(*testing.T, *doctest.Session){
		"open": func(t *testing.T, s *doctest.Session) {
			opened = true
			if err := os.WriteFile(filepath.Join(s.Folder, "open"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Set("BY", "hook"); err != nil {
				t.Fatal(err)
			}
		},
	}})
	tries, err := os.ReadFile(filepath.Join(folder, "tries"))
	if err != nil || string(tries) != "x\nx\nx\n" || !opened {
		t.Errorf("%q, %v, opened %t", tries, err, opened)
	}
}

// Preparations for blocks of another environment, and for blocks that do not run, would fail here.
func TestPreparationBelongsToTheNextBlock(t *testing.T) {
	parse(t, `
<!-- prepare: exit 1 -->
<!-- not run: it is prepared for the next -->
~console
$ false
~
<!-- run: federation -->
~console
$ false
~
<!-- prepare: touch a -->
<!-- run: shell -->
~console
$ ls
a
~
<!-- do: the end -->
`).Run(t, doctest.Options{Environments: []doctest.Environment{doctest.Shell}, Hooks: map[string]func(*testing.T, *doctest.Session){
		"the end": func(t *testing.T, s *doctest.Session) {
			if out, code, err := s.Do("rm a"); err != nil || code != 0 {
				t.Errorf("%s, %d, %v", out, code, err)
			}
		},
	}})
}

func TestPageWithWrongOutputFails(t *testing.T) {
	for claim, c := range map[string]struct{ source, want string }{
		"another output":                     {"<!-- run: shell -->\n~console\n$ echo 1\n2\n~\n", "story.md:3: line 3: echo 1"},
		"an exit code that is not 0":         {"<!-- run: shell -->\n~console\n$ false\n~\n", "exit code 1, want 0"},
		"another exit code":                  {"<!-- run: shell; exit: 2 -->\n~console\n$ true\n~\n", "exit code 0, want 2"},
		"a failure before the last command":  {"<!-- run: shell; exit: 1 -->\n~console\n$ false\n$ false\n~\n", "line 3: false\nexit code 1, want 0"},
		"output that never appears":          {"<!-- run: shell; eventually -->\n~console\n$ echo 1\n2\n~\n", "the page shows"},
		"a hook that the test does not have": {"<!-- do: it -->\n<!-- run: shell -->\n~console\n$ true\n~\n", `no hook "it"`},
		"a preparation that fails":           {"<!-- prepare: false\ntrue -->\n<!-- run: shell -->\n~console\n$ true\n~\n", "exit code 1, want 0"},
		"a command that does not end":        {"<!-- run: shell -->\n~console\n$ sleep 600\n~\n", "line 3: sleep 600"},
		"the end of the shell":               {"<!-- run: shell -->\n~console\n$ exit 0\n~\n", "the shell exited"},
	} {
		t.Run(claim, func(t *testing.T) {
			err := parse(t, c.source).Try(t, doctest.Options{Environments: []doctest.Environment{doctest.Shell}, Timeout: time.Second})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
