package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// writeDocs writes the goals into the folder's performance.md, the series that have figures into its growth.md, and their plots into its
// images.
func writeDocs(folder string, records []record) error {
	if err := writeGoals(filepath.Join(folder, "reference", "performance.md"), records); err != nil {
		return err
	}
	file := filepath.Join(folder, "reference", "growth.md")
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(raw)
	for _, g := range growths() {
		from := recordOf(records, g.suite)
		if len(g.steps(from.results)) == 0 {
			continue
		}
		image := filepath.Join("images", "growth-"+g.name+".svg")
		if text, err = replaceBetween(text, g.name, g.table(from, filepath.Join("..", image))); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(folder, image), []byte(g.draw(from.results)), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// writeGoals writes the table of the goals into the file, with the time and load of each suite.
func writeGoals(file string, records []record) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var headings []string
	for _, r := range records {
		if r.suite.published() && !r.suite.more {
			headings = append(headings, r.heading)
		}
	}
	table := fmt.Sprintf("%s\nSuites: %s.\n", goalTable(published(records)), strings.Join(headings, "; "))
	text, err := replaceBetween(string(raw), "goals", table)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// keepProfiles updates the profiles that the docs contain, which are those that they refer to.
func keepProfiles(from, to string) error {
	kept, err := filepath.Glob(filepath.Join(to, "*.txt"))
	if err != nil {
		return err
	}
	for _, file := range kept {
		raw, err := os.ReadFile(filepath.Join(from, filepath.Base(file)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func recordOf(records []record, suite string) record {
	for _, r := range records {
		if r.suite.name == suite {
			return r
		}
	}
	return record{}
}

// replaceBetween replaces the text between the marks of a name.
func replaceBetween(text, name, by string) (string, error) {
	begins, ends := "<!-- "+name+" begin -->\n", "<!-- "+name+" end -->"
	before, rest, found := strings.Cut(text, begins)
	_, after, foundEnd := strings.Cut(rest, ends)
	if !found || !foundEnd {
		return "", fmt.Errorf("no marks for %s", name)
	}
	return before + begins + by + ends + after, nil
}

// table renders the series as a table, with its plot and the origin of its figures. The growing number increases from left to
// right.
func (g growth) table(from record, image string) string {
	var out strings.Builder
	steps := g.steps(from.results)
	fmt.Fprintf(&out, "![%s](%s)\n\n| %s |", g.title, filepath.ToSlash(image), g.by)
	for _, x := range steps {
		fmt.Fprintf(&out, " %s |", grouped(x))
	}
	out.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(steps)) + "\n")
	for _, p := range g.panels {
		for _, l := range p.lines {
			if len(l.points(from.results)) == 0 {
				continue
			}
			fmt.Fprintf(&out, "| %s: %s |", p.title, l.label)
			for _, x := range steps {
				out.WriteString(" " + l.at(x, from.results) + " |")
			}
			out.WriteString("\n")
		}
	}
	fmt.Fprintf(&out, "\nSuite %s.\n", from.heading)
	return out.String()
}

// at returns the value at x for the table; a dash if there is none.
func (l line) at(x float64, results []result) string {
	for _, p := range l.points(results) {
		if p.x == x {
			return grouped(p.y)
		}
	}
	return "–"
}

// grouped formats a number with three significant digits. Whole numbers get commas.
func grouped(value float64) string {
	if value == 0 {
		return "0"
	}
	if places := 2 - int(math.Floor(math.Log10(math.Abs(value)))); places > 0 && value != math.Trunc(value) {
		text := strconv.FormatFloat(value, 'f', min(places, 4), 64)
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole := strconv.FormatFloat(math.Abs(math.Round(value)), 'f', 0, 64)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if value < 0 {
		return "-" + whole
	}
	return whole
}
