package live

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

var update = flag.Bool("update", false, "write the frames of testdata")

func second(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fixture returns a storm in its sixth second that broke the floor.
func fixture() Scene {
	began := time.Unix(0, 0)
	return Scene{
		Title: "Breakwater demo: without Breakwater", Phase: "storm", Pods: 60, Floor: 40,
		Cells: []string{"worker-1", "worker-2"}, Elapsed: second(6),
		Now: storm.Point{At: second(6), Total: 12, Cells: []int{5, 7}},
		History: []storm.Point{
			{At: 0, Total: 60, Cells: []int{30, 30}},
			{At: second(2), Total: 50, Cells: []int{25, 25}},
			{At: second(2.1), Total: 1, Cells: []int{1, 0}},
			{At: second(2.2), Total: 45, Cells: []int{20, 25}},
			{At: second(4), Total: 30, Cells: []int{10, 20}},
		},
		Progress: []storm.Progress{
			{Attack: "random deletes", Counts: storm.Counts{Attempted: 700, Admitted: 500, Missed: 190, Failed: 10}, Began: began, Ended: began},
			{Attack: "eviction wave", Counts: storm.Counts{Attempted: 60, Admitted: 30, Refused: 30}, Began: began},
			{Attack: "cascade"},
		},
	}
}

func TestFrames(t *testing.T) {
	for name, size := range map[string][2]int{"wide": {90, 24}, "narrow": {46, 20}, "least": {MinWidth, MinHeight}} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Frame(fixture(), size[0], size[1], false), "\n") + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (go test -update writes it)\n%s", diff)
			}
		})
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestFrameFitsEveryTerminal(t *testing.T) {
	scenes := map[string]Scene{"full": fixture(), "empty": {}}
	for name, scene := range scenes {
		for width := MinWidth; width < 130; width += 3 {
			for height := MinHeight; height < 40; height++ {
				lines := Frame(scene, width, height, true)
				if len(lines) > height {
					t.Fatalf("%s, %dx%d: %d lines", name, width, height, len(lines))
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(sgr.ReplaceAllString(line, "")); n > width {
						t.Fatalf("%s, %dx%d: a line is %d wide: %q", name, width, height, n, line)
					}
					if strings.Count(line, "\x1b[0m")*2 != strings.Count(line, "\x1b[") {
						t.Fatalf("%s, %dx%d: a color sequence is not reset: %q", name, width, height, line)
					}
				}
			}
		}
	}
}

func TestColumnShowsTheMinimumOfItsTimeRange(t *testing.T) {
	got := columns(fixture(), 10) // 1.5 seconds per column
	if want := []int{60, 1, 30, 30, 12, -1, -1, -1, -1, -1}; !cmp.Equal(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
}

func TestPlainLine(t *testing.T) {
	want := "  6 s  storm: 12 available (worker-1 5, worker-2 7), floor 40; asked 760, admitted 530, refused 30"
	if got := Line(fixture()); got != want {
		t.Errorf("want %q\ngot  %q", want, got)
	}
}

// terminal returns a display that draws into a buffer.
func terminal(width, height int, drawable bool) (*Display, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &Display{out: out, lineDue: true, size: func() (int, int, bool) { return width, height, drawable }}, out
}

func TestDisplayDrawsInPlaceAndRestoresTheCursor(t *testing.T) {
	display, out := terminal(80, 24, true)
	display.Show(fixture())
	lines := strings.Count(out.String(), "\n")
	out.Reset()
	display.Show(fixture())
	if want := "\x1b[" + strconv.Itoa(lines) + "A"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the second frame begins with %q, want %q", out.String()[:8], want)
	}
	out.Reset()
	display.Printf("a message")
	if want := "\x1b[?25ha message\n"; out.String() != want {
		t.Errorf("want %q, got %q", want, out.String())
	}
	out.Reset()
	display.Close()
	if out.Len() > 0 {
		t.Errorf("the cursor was already shown, got %q", out.String())
	}
}

func TestResizedTerminalIsRedrawn(t *testing.T) {
	display, out := terminal(80, 24, true)
	display.Show(fixture())
	out.Reset()
	display.size = func() (int, int, bool) { return 60, 24, true }
	display.Show(fixture())
	if regexp.MustCompile(`\x1b\[\d+A`).MatchString(out.String()) {
		t.Errorf("the cursor moves up over wrapped lines: %q", out.String())
	}
}

func TestWithoutTerminalPrintsOneLinePerSecond(t *testing.T) {
	for name, display := range map[string]func() (*Display, *bytes.Buffer){
		"no terminal":        func() (*Display, *bytes.Buffer) { return terminal(0, 0, false) },
		"terminal too small": func() (*Display, *bytes.Buffer) { return terminal(MinWidth, 50, true) },
	} {
		t.Run(name, func(t *testing.T) {
			display, out := display()
			scene := fixture()
			for tenths := range 25 {
				scene.Elapsed = time.Duration(tenths) * 100 * time.Millisecond
				display.Show(scene)
			}
			display.Leave()
			scene.Elapsed = 0
			display.Show(scene)
			if got := strings.Count(out.String(), "\n"); got != 4 || strings.Contains(out.String(), "\x1b") {
				t.Errorf("want lines for 0, 1 and 2 s and the first of the next run, got %q", out.String())
			}
		})
	}
}

func TestNoColorIsRespected(t *testing.T) {
	if lines := Frame(fixture(), 80, 24, false); strings.Contains(strings.Join(lines, ""), "\x1b") {
		t.Errorf("a frame without colors has escape sequences: %q", lines)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	display := NewDisplay(file, func(string) string { return "" })
	if _, _, ok := display.size(); ok || display.colours {
		t.Error("a file is treated as a terminal")
	}
}
