package report

import (
	"fmt"

	"github.com/breakwater-k8s/breakwater/e2e/harness/plot"
)

// chart returns a chart of the available pods of both runs over time.
func (r Report) chart() *plot.Chart {
	return &plot.Chart{
		Title:       "Available pods over time in a deletion storm, with and without Breakwater",
		Description: r.describe(), Width: 960, Height: 460,
		Floor: r.Floor, Pods: r.Pods, Marks: r.marks(),
		Lines: []plot.Line{
			{Class: "without", Name: "without Breakwater", Points: r.Unprotected.points()},
			{Class: "with", Name: "with Breakwater", Points: r.Protected.points()},
		},
	}
}

// SVG draws the plot as a standalone image, readable on a light and on a dark page.
func (r Report) SVG() string { return r.chart().SVG() }

// describe describes the plot in words, for screen readers.
func (r Report) describe() string {
	return fmt.Sprintf("%d pods, floor %d. Without Breakwater the number of available pods falls to %d and is %d at the end of the storm. "+
		"With Breakwater it is never below %d and is %d at the end of the storm.",
		r.Pods, r.Floor, r.Unprotected.MinAvailable, r.Unprotected.FinalAvailable, r.Protected.MinAvailable, r.Protected.FinalAvailable)
}

// marks returns the starts of the attacks of the run with Breakwater (both runs follow the same plan), and the
// recovery.
func (r Report) marks() []plot.Mark {
	var marks []plot.Mark
	for _, attack := range r.Protected.PerAttack {
		marks = append(marks, plot.Mark{Seconds: attack.BeginSeconds, Label: attack.Name})
	}
	if recovery := r.Protected.Recovery; recovery != nil {
		marks = append(marks, plot.Mark{Seconds: recovery.BeginSeconds, Label: "with Breakwater: application deployed again"})
	}
	return marks
}

func (r Run) points() []plot.Point {
	points := make([]plot.Point, 0, len(r.Timeline))
	for _, p := range r.Timeline {
		points = append(points, plot.Point{Seconds: p.Seconds, Total: p.Total})
	}
	return points
}
