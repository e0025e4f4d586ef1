package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const preface = `# The SHA-256 sums of released programs that hack/tools/install downloads. It builds a program without a line here, and
# discards a download with another sum. make tool-sums writes this file: run it on a machine with internet access when a version in hack/tools
# changes, and compare the sums with those that the projects publish.
`

// readSums returns the pinned sums by URL.
func readSums(tools string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join(tools, "sums"))
	if err != nil {
		return nil, err
	}
	return parseSums(string(raw)), nil
}

// parseSums parses lines of a sum and a name.
func parseSums(text string) map[string]string {
	sums := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && isSum(words[0]) {
			sums[words[1]] = words[0]
		}
	}
	return sums
}

func isSum(word string) bool {
	raw, err := hex.DecodeString(word)
	return err == nil && len(raw) == 32
}

// updateSums pins the sums of all releases in the versions of hack/tools.
func updateSums(ctx context.Context, c *client, tools string) error {
	sums := map[string]string{}
	for _, r := range releases() {
		version, err := r.version(tools)
		if err != nil {
			return err
		}
		for _, platform := range platforms {
			url := expand(r.url, version, platform)
			if sums[url], err = c.sum(ctx, url, expand(r.sums, version, platform)); err != nil {
				return err
			}
		}
	}
	text := preface
	for _, url := range slices.Sorted(maps.Keys(sums)) {
		text += sums[url] + "  " + url + "\n"
	}
	return os.WriteFile(filepath.Join(tools, "sums"), []byte(text), 0o644) //nolint:gosec // a source file
}

// sum returns the published sum of a file. If the project publishes none, it computes the sum of what the site sends.
func (c *client) sum(ctx context.Context, url, published string) (string, error) {
	if published == "" {
		return c.download(ctx, url, io.Discard)
	}
	var text strings.Builder
	if _, err := c.download(ctx, published, &text); err != nil {
		return "", err
	}
	sum := strings.TrimSpace(text.String())
	if !isSum(sum) {
		sum = parseSums(text.String())[path.Base(url)]
	}
	if sum == "" {
		return "", fmt.Errorf("%s has no sum of %s", published, path.Base(url))
	}
	return sum, nil
}
