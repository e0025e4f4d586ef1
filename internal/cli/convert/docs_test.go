package convert_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

func TestDocsExplainEveryReason(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/how-to/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(raw), "\n## Warnings\n")
	if !found {
		t.Fatal("docs/how-to/migrate.md has no warnings")
	}
	var explained []convert.Reason
	for line := range strings.Lines(table) {
		if rest, found := strings.CutPrefix(line, "| `"); found {
			reason, _, _ := strings.Cut(rest, "`")
			explained = append(explained, convert.Reason(reason))
		}
	}
	if diff := cmp.Diff(convert.Reasons(), explained); diff != "" {
		t.Errorf("reasons in docs/how-to/migrate.md (-want +got):\n%s", diff)
	}
}
