package plot_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/plot"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func point(before time.Duration, available, floor, denied int32) history.Point {
	return history.Point{
		At: noon.Add(-before), Lowest: available, Denied: denied,
		Last: history.Sample{Available: available, Floor: floor, FloorKnown: true, Known: true},
	}
}

func TestNewDrawsStepsAreasAndMarks(t *testing.T) {
	c := plot.New([]history.Point{
		point(10*time.Minute, 10, 5, 0), point(5*time.Minute, 5, 5, 12), point(time.Minute, 4, 5, 0),
	}, noon, 10*time.Minute, plot.Narrow)
	for name, got := range map[string][2]string{
		"available": {c.Available, "M44 "}, "floor": {c.Floor, "M44 "}, "room": {c.Room, "M44 "}, "lack": {c.Lack, "M303.2 "},
	} {
		if !strings.HasPrefix(got[0], got[1]) {
			t.Errorf("path %s = %q, want it to begin with %q", name, got[0], got[1])
		}
	}
	if strings.Count(c.Available, "V") != 2 || strings.Count(c.Lack, "Z") != 1 {
		t.Errorf("available %q, lack %q", c.Available, c.Lack)
	}
	if len(c.Marks) != 1 || c.Marks[0].X != 188 || c.Marks[0].Title != "11:55:00 UTC: 12 refused" {
		t.Errorf("marks %+v", c.Marks)
	}
	if c.Y[0].Label != "0" || c.Empty {
		t.Errorf("y %+v", c.Y)
	}
}

func TestNewOfNoPointsIsEmpty(t *testing.T) {
	c := plot.New([]history.Point{{At: noon.Add(-time.Minute), Denied: 3}}, noon, time.Hour, plot.Wide)
	if !c.Empty || c.Available != "" || len(c.Marks) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestNewStaysInFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom([]time.Duration{15 * time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "window")
		var points []history.Point
		for at := noon.Add(-window); at.Before(noon); at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second}).Draw(t, "step")) {
			if len(points) > 400 {
				break
			}
			p := point(noon.Sub(at), rapid.Int32Range(0, 2000).Draw(t, "available"), rapid.Int32Range(0, 2000).Draw(t, "floor"), rapid.Int32Range(0, 99999).Draw(t, "refused"))
			p.Last.Known = rapid.Bool().Draw(t, "known")
			points = append(points, p)
		}
		c := plot.New(points, noon, window, plot.Narrow)
		if len(c.Available) > 30*plot.Narrow || len(c.X) > 6 || len(c.Y) > 8 {
			t.Fatalf("a path of %d bytes, %d and %d ticks", len(c.Available), len(c.X), len(c.Y))
		}
		for _, tick := range c.Y {
			if tick.At < c.Top || tick.At > c.Bottom {
				t.Fatalf("tick %+v is outside", tick)
			}
		}
		for _, m := range c.Marks {
			if m.X < c.Left || m.X > c.Right || m.Top < c.Bottom {
				t.Fatalf("mark %+v is outside", m)
			}
		}
	})
}

func TestNewBar(t *testing.T) {
	expected := 20
	for claim, c := range map[string]struct{ got, want plot.Bar }{
		"all available":     {plot.NewBar(20, 0, 10, true, &expected), plot.Bar{Stay: 100, Floor: 50, FloorKnown: true}},
		"some under way":    {plot.NewBar(20, 5, 10, true, nil), plot.Bar{Stay: 75, Reserved: 25, Floor: 50, FloorKnown: true}},
		"below the floor":   {plot.NewBar(5, 0, 10, true, nil), plot.Bar{Stay: 50, Floor: 100, FloorKnown: true}},
		"nothing":           {plot.NewBar(0, 3, 0, false, nil), plot.Bar{}},
		"discounted, minus": {plot.NewBar(-3, 0, 10, true, nil), plot.Bar{Floor: 100, FloorKnown: true}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", claim, c.got, c.want)
		}
	}
}

func TestAxisFitsData(t *testing.T) {
	unknown := func(before time.Duration) history.Point { return history.Point{At: noon.Add(-before)} }
	denied := history.Point{At: noon.Add(-50 * time.Minute), Denied: 1}
	for claim, c := range map[string]struct {
		points      []history.Point
		first, last string // the labels of the first and the last tick
		gaps        int
	}{
		"from the first sample":                   {[]history.Point{point(12*time.Minute, 1, 1, 0)}, "11:50", "12:00", 0},
		"to the last sample":                      {[]history.Point{point(50*time.Minute, 1, 1, 0), unknown(20 * time.Minute)}, "11:15", "11:40", 0},
		"of seconds":                              {[]history.Point{point(12*time.Second, 1, 1, 0)}, "11:59:50", "12:00:00", 0},
		"at least ten seconds":                    {[]history.Point{point(0, 1, 1, 0)}, "11:59:55", "12:00:00", 0},
		"of the window, if there is more data":    {[]history.Point{point(3*time.Hour, 1, 1, 0)}, "11:15", "12:00", 0},
		"of the window, if there is none":         {nil, "11:15", "12:00", 0},
		"with a gap":                              {[]history.Point{point(50*time.Minute, 1, 1, 0), unknown(20 * time.Minute), point(10*time.Minute, 1, 1, 0)}, "11:15", "12:00", 1},
		"from a denial, before anything is known": {[]history.Point{denied, point(10*time.Minute, 1, 1, 0)}, "11:15", "12:00", 1},
	} {
		chart := plot.New(c.points, noon, time.Hour, plot.Medium)
		first, last := chart.X[0], chart.X[len(chart.X)-1]
		if first.Label != c.first || last.Label != c.last || len(chart.Gaps) != c.gaps {
			t.Errorf("%s: ticks from %s to %s, gaps %+v, want from %s to %s, and %d gaps", claim, first.Label, last.Label, chart.Gaps, c.first, c.last, c.gaps)
		}
		if strings.Count(chart.Available, "M") > 1+c.gaps {
			t.Errorf("%s: line %s, want it interrupted only by gaps", claim, chart.Available)
		}
	}
}
