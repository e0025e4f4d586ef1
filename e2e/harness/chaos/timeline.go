package chaos

import (
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/plot"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// timeline is the content of the picture of a scenario.
type timeline struct {
	name                   string
	seed                   uint64
	evidence               Evidence
	judgement              Judgement
	faultBegan, faultEnded time.Duration
}

func (t timeline) chart() *plot.Chart {
	c := &plot.Chart{
		Title: fmt.Sprintf("Available pods over time: %s, seed %d", t.name, t.seed),
		Description: fmt.Sprintf("The fault lasts from %.1f s to %.1f s. The floor is %d; at least %d pods stay available, "+
			"and %d removals leave fewer than the floor.",
			t.faultBegan.Seconds(), t.faultEnded.Seconds(), t.evidence.Floor, t.judgement.MinAvailable, t.judgement.OverAdmissions),
		Width: 960, Height: 380, Background: true, Floor: t.evidence.Floor,
		Spans: []plot.Span{{From: t.faultBegan.Seconds(), To: t.faultEnded.Seconds(), Name: "the fault"}},
		Rows: []plot.Row{
			t.row("with", "requests admitted", storm.Admitted), t.row("without", "refused", storm.Refused),
			t.row("without", "failed", storm.Failed),
		},
	}
	line := plot.Line{Class: "with", Name: t.name}
	for _, p := range t.judgement.Timeline {
		line.Points = append(line.Points, plot.Point{Seconds: p.At.Seconds(), Total: p.Total})
	}
	c.Lines = append(c.Lines, line)
	return c
}

// row has the answers of one outcome.
func (t timeline) row(class, name string, outcome storm.Outcome) plot.Row {
	row := plot.Row{Class: class, Name: name}
	for _, ask := range t.evidence.Requests {
		if ask.Outcome == outcome {
			row.At = append(row.At, ask.Answered.Seconds())
		}
	}
	return row
}
