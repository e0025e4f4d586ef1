package main

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed figures.yaml
var figuresSource []byte

// figure is an entry of figures.yaml, which explains the fields.
type figure struct {
	Key, Benchmark, Unit string
	Less, Over           *figure
	Lower                bool
	What, Suffix         string
	Goal                 float64
}

// figures returns all figures, in the order of the table of goals.
func figures() (all []figure) {
	if err := yaml.UnmarshalStrict(figuresSource, &all); err != nil {
		panic(err) // a test decodes it
	}
	return all
}

// report computes the figures, and lists those without benchmark results.
func report(results []result) (values map[string]float64, missing []figure) {
	values = map[string]float64{}
	for _, f := range figures() {
		if rounds := f.rounds(results); len(rounds) > 0 {
			values[f.Key] = median(rounds)
		} else {
			missing = append(missing, f)
		}
	}
	return values, missing
}

// rounds returns the figure of each round, of the benchmark with the worst median. It is empty without results.
func (f figure) rounds(results []result) (worst []float64) {
	name, each := regexp.MustCompile(f.Benchmark), map[string][]float64{}
	for _, r := range results {
		if value, has := r.figures[f.Unit]; has && name.MatchString(r.name) {
			each[r.name] = append(each[r.name], value)
		}
	}
	for _, rounds := range each {
		if worst == nil || f.Lower && median(rounds) < median(worst) || !f.Lower && median(rounds) > median(worst) {
			worst = rounds
		}
	}
	if f.Less != nil {
		worst = combine(worst, f.Less.rounds(results), func(a, b float64) float64 { return a - b })
	}
	if f.Over != nil {
		worst = combine(worst, f.Over.rounds(results), func(a, b float64) float64 { return a / b })
	}
	return slices.DeleteFunc(worst, func(value float64) bool { return math.IsInf(value, 0) || math.IsNaN(value) })
}

// combine combines the two sides of each round, up to the last round that has both.
func combine(a, b []float64, of func(a, b float64) float64) (all []float64) {
	for i := range min(len(a), len(b)) {
		all = append(all, of(a[i], b[i]))
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// goalTable renders the goals as a Markdown table with the measured figures.
func goalTable(results []result) string {
	var out strings.Builder
	out.WriteString("| what | figure | goal | measured | rounds | |\n| --- | --- | ---: | ---: | --- | --- |\n")
	for _, f := range figures() {
		if f.What == "" {
			continue
		}
		measured, spread, verdict, rounds := "–", "", "", f.rounds(results)
		if len(rounds) > 0 {
			measured, verdict = number(median(rounds))+f.Suffix, f.verdict(median(rounds))
		}
		if len(rounds) > 1 {
			spread = fmt.Sprintf("%s to %s in %d", number(slices.Min(rounds)), number(slices.Max(rounds)), len(rounds))
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s | %s | %s |\n", f.What, f.Key, f.bound(), measured, spread, verdict)
	}
	return out.String()
}

func (f figure) bound() string {
	switch {
	case f.Goal == 0:
		return ""
	case f.Lower:
		return "≥ " + number(f.Goal) + f.Suffix
	}
	return "≤ " + number(f.Goal) + f.Suffix
}

func (f figure) verdict(measured float64) string {
	switch {
	case f.Goal == 0:
		return ""
	case f.Lower && measured >= f.Goal, !f.Lower && measured <= f.Goal:
		return "met"
	}
	return "**missed**"
}

// number formats a number with three significant digits, but a whole number in full.
func number(value float64) string {
	if math.Abs(value) >= 100 || value == math.Trunc(value) {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
