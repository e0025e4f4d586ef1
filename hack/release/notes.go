package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

const unreleased = "Unreleased"

// notes returns the release notes: the section of the version in the changelog, or the unreleased changes if the commit has no tag. It fails if the
// commit has the tag of another version, unless -version asks for that.
func (r *release) notes(ctx context.Context) (string, error) {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	tags, err := git(ctx, "tag", "--points-at", "HEAD")
	if err != nil {
		return "", err
	}
	tagged := false
	if tags != "" && r.version == r.charts {
		if tagged = slices.Contains(strings.Fields(tags), "v"+r.version); !tagged {
			return "", fmt.Errorf("the commit has the tag %s, and the charts have version %s: change Chart.yaml of both charts, or the tag", tags, r.version)
		}
	}
	return notesOf(string(changelog), r.version, tagged)
}

// notesOf returns a section of the changelog. Only an untagged commit may have the changes in the section of what is not released.
func notesOf(changelog, version string, tagged bool) (string, error) {
	text, ok := section(changelog, version)
	if !ok && !tagged {
		text, ok = section(changelog, unreleased)
	}
	if !ok || strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: rename the section %q", "## "+version, "## "+unreleased)
	}
	return text, nil
}

// section returns the text below a heading of the second level, which may be followed by a date.
func section(changelog, title string) (string, bool) {
	heading := regexp.MustCompile(`(?m)^## \[?v?` + regexp.QuoteMeta(title) + `\]?( .*)?\n`)
	at := heading.FindStringIndex(changelog)
	if at == nil {
		return "", false
	}
	text, _, _ := strings.Cut(changelog[at[1]:], "\n## ")
	return strings.TrimSpace(text) + "\n", true
}
