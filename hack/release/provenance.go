package main

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"time"

	"github.com/breakwater-k8s/breakwater/hack/release/check"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

const repository = "https://github.com/breakwater-k8s/breakwater"

// writeProvenance writes an in-toto statement about all files: by what, from which commit and with which Go they were built.
func (r *release) writeProvenance(ctx context.Context) error {
	names, err := sums.Files(r.options.out)
	if err != nil {
		return err
	}
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	statement := check.Statement{Type: check.StatementType, PredicateType: check.PredicateType}
	for _, name := range names {
		sum, err := sums.Of(r.path(name))
		if err != nil {
			return err
		}
		statement.Subject = append(statement.Subject, check.Subject{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	statement.Predicate = map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          repository + "/blob/main/docs/contributing/releasing.md",
			"externalParameters": map[string]any{"version": r.version, "image": r.imageName(), "uncommittedChanges": changes != ""},
			"internalParameters": map[string]any{"go": runtime.Version()},
			"resolvedDependencies": []map[string]any{
				{"uri": "git+" + repository, "digest": map[string]string{"gitCommit": commit}},
			},
		},
		"runDetails": map[string]any{
			"builder": map[string]string{"id": builder()},
			// The time of the commit, so that the statement is reproducible.
			"metadata": map[string]string{"startedOn": r.at.Format(time.RFC3339)},
		},
	}
	raw, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(check.ProvenanceFile), append(raw, '\n'), 0o644)
}

// builder returns the identity of what builds: a workflow of GitHub, or a machine without an identity.
func builder() string {
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		return os.Getenv("GITHUB_SERVER_URL") + "/" + workflow
	}
	return repository + "/blob/main/hack/release"
}
