// Command words finds words that we stopped using in comments and strings of Go, and in Markdown, YAML and templates; and comments that explain
// names which no longer exist.
package main

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// instead is what to write for each pattern.
//
//nolint:gochecknoglobals // a constant in all but the language's sense
var instead = []struct{ pattern, write string }{
	{`tells? whether`, "reports whether"},
	{`tells? of`, "reports"},
	{`nobody|somebody|whoever|anybody`, "the actor: the webhook, another client, the user"},
	{`anew|once more`, "again; recreate, retry"},
	{`reckon\w*`, "compute, derive"},
	{`heeds?`, "honor, apply"},
	{`goes on|lets? go of|takes? up again`, "continues, releases, resumes"},
	{`stands? in the|lies in the`, "is recorded in, is stored in"},
	{`for people`, "informational"},
	{`dearer`, "more expensive"},
	{`broke the glass|forced over`, "break-glass removal, overridden denial"},
	{`costs budget`, "consumes budget"},
	{`(is|are|was|were) away`, "is unreachable"},
	{`(is|are|was|were) not there`, "does not exist"},
	{`(is|are|was|were) told|told of|tells (how|what|where|who|why|about)`, "reports, says, shows"},
	{`comes? to (its|an) end`, "ends"},
	{`heeded|minded|owes?`, "honored, tolerated, pending"},
	{`in vain|lately`, "without success, recently"},
	{`mend(s|ed|ing)?`, "fix, repair, correct"},
	{`such a one|the way of a`, "the thing, the request path"},
	{`\w*(colour|behaviour)\w*|(re|un)?labelled|signalled|modelled|cancell(ed|ing)`, "the US spelling: color, behavior, labeled, signaled, modeled, canceled"},
}

// stopped has a group for each pattern of instead.
//
//nolint:gochecknoglobals // a constant
var stopped = func() *regexp.Regexp {
	var groups []string
	for _, i := range instead {
		groups = append(groups, "("+strings.ReplaceAll(i.pattern, "(", "(?:")+")")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(groups, "|") + `)\b`)
}()

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

func run() error {
	tracked, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	var lines []string
	all := &names{known: map[string]bool{}, files: map[string]bool{}}
	for file := range strings.Lines(string(tracked)) {
		file = strings.TrimSuffix(file, "\n")
		raw, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted and not committed
		}
		if err != nil {
			return err
		}
		all.add(file, raw)
		if !isOurs(file) {
			continue
		}
		for _, h := range find(file, raw) {
			lines = append(lines, fmt.Sprintf("%s:%d: %q: write %s", file, h.line, h.word, h.write))
		}
	}
	if len(lines) > 0 {
		return fmt.Errorf("words that we stopped using (CONTRIBUTING.md):\n%s", strings.Join(lines, "\n"))
	}
	if missing := all.missing(); len(missing) > 0 {
		return fmt.Errorf("comments that explain what does not exist:\n%s", strings.Join(missing, "\n"))
	}
	return nil
}

// isOurs reports whether a file has words of ours that are checked.
func isOurs(file string) bool {
	if strings.HasPrefix(file, "hack/words/") || strings.HasPrefix(file, "hack/tools/") || file == "CHANGELOG.md" {
		return false
	}
	return slices.Contains([]string{".go", ".md", ".yaml", ".tpl", ".txt", ".tmpl", ".html"}, filepath.Ext(file))
}

type hit struct {
	line        int
	word, write string
}

// find returns the hits in the prose of a file: of Go only in comments and strings.
func find(file string, raw []byte) []hit {
	var all []hit
	search := func(line int, text string) {
		for _, at := range stopped.FindAllStringSubmatchIndex(text, -1) {
			for i := range instead {
				if at[2*i+2] >= 0 {
					all = append(all, hit{line + strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], instead[i].write})
				}
			}
		}
	}
	if filepath.Ext(file) != ".go" {
		search(1, string(raw))
		return all
	}
	scan(file, raw, func(kind token.Token, line int, text string) {
		if kind == token.COMMENT || kind == token.STRING {
			search(line, text)
		}
	})
	return all
}

// scan visits the tokens of a Go file, each with its line, comments included.
func scan(file string, raw []byte, visit func(kind token.Token, line int, text string)) {
	files := token.NewFileSet()
	source := files.AddFile(file, -1, len(raw))
	var s scanner.Scanner
	s.Init(source, raw, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return
		}
		visit(kind, files.Position(pos).Line, text)
	}
}
