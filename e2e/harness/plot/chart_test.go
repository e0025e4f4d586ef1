package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPathStepsThroughTheTimeline(t *testing.T) {
	c := Chart{Width: 110, Height: 100, left: 10, seconds: 10, pods: 10}
	got := c.path([]Point{{Seconds: 0, Total: 10}, {Seconds: 5, Total: 4}, {Seconds: 10, Total: 4}})
	if want := "M10.0 0.0H60.0V60.0H110.0V60.0"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestBadgesOfCloseMarksDoNotCoverEachOther(t *testing.T) {
	c := Chart{Width: 110, left: 10, seconds: 100, pods: 10, Marks: []Mark{{Seconds: 20}, {Seconds: 21}, {Seconds: 22}, {Seconds: 90}}}
	c.marks()
	var at []string
	for part := range strings.SplitSeq(c.out.String(), `<circle class="badge" cx="`) {
		if x, rest, found := strings.Cut(part, `" cy="-12.0"`); found && rest != "" {
			at = append(at, x)
		}
	}
	if got, want := strings.Join(at, " "), "30.0 48.0 66.0 100.0"; got != want {
		t.Errorf("badges are at %s, want %s", got, want)
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, most := range []float64{1, 7, 60, 100, 333, 1000} {
		all := ticks(most, 6)
		if len(all) < 2 || len(all) > 7 || all[0] != 0 || all[len(all)-1] > most {
			t.Errorf("ticks up to %v: %v", most, all)
		}
	}
}

func TestStepsAreRound(t *testing.T) {
	for least, want := range map[float64]float64{0.3: 0.5, 1: 1, 1.1: 2, 7: 10, 349: 500} {
		if got := step(least); got != want {
			t.Errorf("step(%v) = %v, want %v", least, got, want)
		}
	}
}

func TestSVGIsWellFormedAndEscaped(t *testing.T) {
	for _, c := range []*Chart{{Width: 960, Height: 400}, {
		Title: "<a>", Description: "b & c", Width: 960, Height: 400, Floor: 3, Pods: 5,
		Lines: []Line{{Class: "with", Name: "<line>", Points: []Point{{0, 5}, {4, 3}, {10, 5}}}},
		Marks: []Mark{{Seconds: 4, Label: "<mark>"}},
	}} {
		decoder := xml.NewDecoder(strings.NewReader(c.SVG()))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, c.SVG())
			}
		}
		if first := c.SVG(); first != c.SVG() {
			t.Error("SVG() is not deterministic")
		}
	}
}
