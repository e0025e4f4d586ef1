// Package metrictable parses the tables of docs/reference/metrics.md, for the tests that compare them with the code.
package metrictable

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Row is a documented metric.
type Row struct {
	Name string
	// Kind is counter, gauge or histogram.
	Kind   string
	Labels []string
	// Text is the description of its labels and meaning.
	Text string
	// Alerts are the names of the alerts that use it.
	Alerts []string
}

// Read reads all rows of a file, by metric name. A malformed row is an error.
func Read(path string) (map[string]Row, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the tables of metrics: %w", err)
	}
	rows := map[string]Row{}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "| `breakwater_") {
			continue
		}
		row, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(line))
		}
		if _, twice := rows[row.Name]; twice {
			return nil, fmt.Errorf("%s has %s twice", path, row.Name)
		}
		rows[row.Name] = row
	}
	return rows, nil
}

func parse(line string) (Row, error) {
	columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(columns) != 5 {
		return Row{}, fmt.Errorf("a row of %d columns", len(columns))
	}
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	row := Row{Name: strings.Trim(columns[0], "`"), Kind: columns[1], Text: columns[2] + " " + columns[3]}
	if row.Kind != "counter" && row.Kind != "gauge" && row.Kind != "histogram" {
		return Row{}, fmt.Errorf("kind %q", row.Kind)
	}
	if columns[2] != "" {
		for clause := range strings.SplitSeq(columns[2], "; ") {
			label := regexp.MustCompile("^`([a-z]+)`").FindStringSubmatch(clause)
			if label == nil {
				return Row{}, fmt.Errorf("a label that begins %q", clause)
			}
			row.Labels = append(row.Labels, label[1])
		}
	}
	for _, alert := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(columns[4], -1) {
		row.Alerts = append(row.Alerts, "Breakwater"+alert[1])
	}
	return row, nil
}
