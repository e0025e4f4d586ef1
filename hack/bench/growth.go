package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// growth is a series: figures that change as one number grows, and how to show them.
type growth struct {
	// name is the file name of the plot, and the name of the section in growth.md.
	name, title string
	// suite is the suite that has the figures; by is the number that grows.
	suite, by string
	panels    []panel
}

// panel is a plot of lines with a common unit.
type panel struct {
	title string
	lines []line
}

// line is one column of the table.
type line struct {
	label string
	// benchmark matches the names of the benchmarks. Its group is the number that grows.
	benchmark string
	unit      string
}

// point is a line's value y for the growing number x.
type point struct{ x, y float64 }

func growths() []growth {
	return []growth{
		aggregatorGrowth("aggregator-pods", "Aggregator: more pods, 1,000 protectors", "pods", `^Aggregator/pods=(\d+)/protectors=1000/start$`),
		aggregatorGrowth("aggregator-protectors", "Aggregator: more protectors, 100,000 pods", "protectors", `^Aggregator/pods=100000/protectors=(\d+)/start$`),
		webhookGrowth(),
		wideGrowth(),
		cellGrowth(),
		replicaGrowth(),
	}
}

func aggregatorGrowth(name, title, by, benchmark string) growth {
	return growth{name, title, "all-aggregator", by, []panel{
		{"memory, MiB", []line{{"settled", benchmark, "aggregator-MiB-settled"}, {"peak", benchmark, "aggregator-MiB-peak"}}},
		{"first aggregation, s", []line{
			{"from start to all written", benchmark, "first-aggregation-s"},
			{"processor time of that", benchmark, "first-aggregation-processor-s"},
		}},
	}}
}

func webhookGrowth() growth {
	of := func(core, part string) string { return `^Webhook/core=` + core + `/protectors=(\d+)/` + part + `$` }
	lines := func(unit string) []line {
		return []line{
			{"stand-in core, spread", of("stand-in", "spread"), unit}, {"stand-in core, one protector", of("stand-in", "one"), unit},
			{"real core, spread", of("real", "spread"), unit}, {"real core, one protector", of("real", "one"), unit},
		}
	}
	return growth{"webhook-protectors", "Webhook: more protectors, 64 callers", "all-webhook", "protectors", []panel{
		{"memory, MiB", []line{{"settled", of("real", "start"), "webhook-MiB-settled"}, {"peak after the storms", of("real", "one"), "webhook-MiB-peak"}}},
		{"ready after, s", []line{{"real core", of("real", "start"), "ready-s"}}},
		{"reviews a second", lines("reviews/s")},
		{"p50, ms", lines("p50-ms")},
		{"p99, ms", lines("p99-ms")},
	}}
}

func wideGrowth() growth {
	of := func(part string) string { return `^Wide/protectors=10000/cells=(\d+)/` + part + `$` }
	return growth{"wide", "Webhook: 10,000 protectors of more cells, stand-in core", "all-webhook", "cells", []panel{
		{"memory, MiB", []line{{"settled", of("start"), "webhook-MiB-settled"}, {"peak", of("start"), "webhook-MiB-peak"}}},
		{"ready after, s", []line{{"stand-in core", of("start"), "ready-s"}}},
		{"processor time, ms", []line{{"for a review with its write", of("spread"), "webhook-ms/review"}}},
	}}
}

func cellGrowth() growth {
	of := func(part string) string { return `^Cells/cells=(\d+)/` + part + `$` }
	return growth{"cells", "One protector over more cells, real core", "all-cells", "cells", []panel{
		{"status, KiB", []line{{"20 reservations in each cell", of("write"), "KiB"}, {"none", of("idle-write"), "KiB"},
			{"whole object with none", of("idle-write"), "object-KiB"}}},
		{"one client, ms", []line{
			{"review, p50", of("alone"), "p50-ms"}, {"status write, 20 reservations in each", of("write"), "write-ms"},
			{"status write, none", of("idle-write"), "write-ms"},
		}},
		{"64 callers, reviews a second", []line{{"one protector", of("storm"), "reviews/s"}}},
		{"64 callers, ms", []line{{"review, p50", of("storm"), "p50-ms"}, {"p99", of("storm"), "p99-ms"}}},
	}}
}

func replicaGrowth() growth {
	const of = `^Replicas/replicas=(\d+)$`
	return growth{"replicas", "One protector by more replicas of the webhook, real core, 64 callers", "all-webhook", "replicas", []panel{
		{"removals a second", []line{{"all replicas", of, "removals/s"}}},
		{"ms", []line{{"p50", of, "p50-ms"}, {"p99", of, "p99-ms"}}},
		{"for each", []line{{"writes per removal", of, "writes/removal"}, {"conflicts per write", of, "conflicts/write"}}},
	}}
}

// points returns the values of a line, sorted by x. If a benchmark ran several times, the last run counts.
func (l line) points(results []result) []point {
	name, last := regexp.MustCompile(l.benchmark), map[float64]float64{}
	for _, r := range results {
		found := name.FindStringSubmatch(r.name)
		value, has := r.figures[l.unit]
		if !has || len(found) < 2 {
			continue
		}
		if x, err := strconv.ParseFloat(found[1], 64); err == nil {
			last[x] = value
		}
	}
	var points []point
	for x, y := range last {
		points = append(points, point{x, y})
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return points
}

// steps returns all numbers for which some line has a figure.
func (g growth) steps(results []result) []float64 {
	var all []float64
	for _, p := range g.panels {
		for _, l := range p.lines {
			for _, at := range l.points(results) {
				all = append(all, at.x)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
