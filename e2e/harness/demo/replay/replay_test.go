package replay_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/replay"
	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// fixture returns a storm of three seconds.
func fixture() report.Report {
	return report.Report{
		Floor: 4, Pods: 6, Cells: []string{"worker-1", `<b>&"`},
		Protected: report.Run{
			Counts: storm.Counts{Admitted: 3, Refused: 9}, MinAvailable: 4,
			PerAttack: []report.Attack{{Name: "<i>deletes</i>", BeginSeconds: .5}, {Name: "cascade", BeginSeconds: .75}},
			Recovery:  &report.Recovery{BeginSeconds: 2.5},
			Timeline:  []report.Point{{Seconds: 0, Total: 6, Cells: []int{3, 3}}, {Seconds: .9, Total: 4, Cells: []int{1, 3}}, {Seconds: 2.9, Total: 6, Cells: []int{3, 3}}},
			Ledger: []report.Entry{
				{Seconds: .6, Counted: []int{3, 3}, Reserved: []int{2, 0}, Admitted: 2},
				{Seconds: 1.5, Counted: []int{1, 3}, Reserved: []int{0, 0}, Admitted: 2, Refused: 7},
				{Seconds: 1.7, Counted: []int{1, 3}, Reserved: []int{0, 1}, Admitted: 3, Refused: 9},
			},
		},
	}
}

func TestTableHasARowForEachSecond(t *testing.T) {
	want := `| second | begins | available | of it worker-1, <b>&" | open reservations | admitted | refused |
| --- | --- | --- | --- | --- | --- | --- |
| 1 | 1 <i>deletes</i>, 2 cascade | 4 | 1, 3 | 2 | 2 | 0 |
| 2 |  | 4 | 1, 3 | 1 | 1 | 9 |
| 3 | 3 deployed again | 6 | 3, 3 | 1 | 0 | 0 |
`
	if diff := cmp.Diff(want, replay.Table(fixture())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSVGIsCompleteAndEscaped(t *testing.T) {
	for _, r := range []report.Report{fixture(), {}} {
		decoder := xml.NewDecoder(strings.NewReader(replay.SVG(r)))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("not well-formed: %v", err)
			}
		}
	}
	picture := replay.SVG(fixture())
	for _, want := range []string{
		"&lt;i&gt;deletes", "&lt;b&gt;&amp;", "never fewer than 4, the floor is 4", "3 were admitted and 9 refused", "prefers-color-scheme:dark", "prefers-reduced-motion",
		">3</text>", "deployed again", "animation:go 3s",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("the SVG does not contain %q", want)
		}
	}
	for _, forbidden := range []string{"<script", "NaN", "Inf", "href"} {
		if strings.Contains(picture, forbidden) || strings.Contains(replay.SVG(report.Report{}), forbidden) {
			t.Errorf("the SVG contains %q", forbidden)
		}
	}
	// Two requests of the first second are one bar, with a height of 2 of 9.
	if bars := strings.Count(picture, `class="admitted"`); bars != 1+2 {
		t.Errorf("%d bars of admitted requests and the legend, want 3", bars)
	}
	if bars := strings.Count(picture, `class="refused"`); bars != 1+1 {
		t.Errorf("%d bars of refused requests and the legend, want 2", bars)
	}
}
