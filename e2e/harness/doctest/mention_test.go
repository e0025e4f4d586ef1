package doctest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

func TestCommandsInSentencesAreFound(t *testing.T) {
	page, err := doctest.Parse("page.md", []byte("# Title, and `kubectl get pods`\n\nSee `kubectl`, `web-0` and `kubectl get\ncells`; *or `make test`*.\n\n"+
		"| what | how |\n| --- | --- |\n| `kubernetes` | `breakwater check` |\n\n```sh\n`helm test`\n```\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []doctest.Mention{{1, "kubectl get pods"}, {3, "kubectl get cells"}, {4, "make test"}, {8, "breakwater check"}}
	if diff := cmp.Diff(want, page.Mentions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSimpleCommandsOfACommand(t *testing.T) {
	commands, err := doctest.ParseCommands("$ helm install web \\\n    --set a='b c' && kubectl get pods   # all\n$ cat x | kubectl apply -f - <<'END'\nkind: Pod\nEND\n", 1)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"helm", "install", "web", "--set", "a="}, {"kubectl", "get", "pods"}, {"cat", "x"}, {"kubectl", "apply", "-f", "-"},
	}
	if diff := cmp.Diff(want, append(commands[0].Simple(), commands[1].Simple()...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
