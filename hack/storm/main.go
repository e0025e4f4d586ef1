// Command storm renders the storm that is recorded in docs/storm.json: docs/images/demo.svg and storm.svg, and the table in
// docs/concepts/storm.md. With -record it first replaces the record by the report of a demo.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/replay"
	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
)

func main() {
	docs := flag.String("docs", "docs", "`directory` of the documentation")
	record := flag.String("record", "", "`file` report.json of the demo to record")
	flag.Parse()
	if err := run(*docs, *record); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func run(docs, record string) error {
	kept := filepath.Join(docs, "storm.json")
	if record != "" {
		r, err := read(record)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(kept, append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	r, err := read(kept)
	if err != nil {
		return err
	}
	for name, picture := range map[string]string{"demo.svg": r.SVG(), "storm.svg": replay.SVG(r)} {
		if err := os.WriteFile(filepath.Join(docs, "images", name), []byte(picture), 0o644); err != nil {
			return err
		}
	}
	page := filepath.Join(docs, "concepts", "storm.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	written, err := replaceBetween(string(raw), replay.Table(r))
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(written), 0o644)
}

func read(file string) (r report.Report, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	if len(r.Protected.Ledger) == 0 || !r.Held() || !r.Proves() {
		return r, fmt.Errorf("%s is not the report of a storm in which the floor held: %s", file, r.Outcome())
	}
	return r, nil
}

const begin, end = "<!-- storm: written by hack/storm -->\n", "<!-- storm: end -->"

// replaceBetween replaces the text between the marks.
func replaceBetween(page, table string) (string, error) {
	before, rest, found := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		return "", errors.New("docs/concepts/storm.md has no marks for the table")
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}
