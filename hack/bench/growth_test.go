package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const cells = `BenchmarkCells/cells=8/write-2   	     300	  18674742 ns/op	        30.13 KiB	        25.03 kube-apiserver-ms/write	        18.67 write-ms
BenchmarkCells/cells=1/storm-2   	[controller-runtime] log.SetLogger(...) was never called
	>  goroutine 5562 [running]:
     300	    716476 ns/op	        42.12 p50-ms	        94.77 p99-ms	      1396 reviews/s
BenchmarkCells/cells=1/write   	     300	   6522498 ns/op	         3.929 KiB	         5.467 kube-apiserver-ms/write	         6.522 write-ms
--- FAIL: BenchmarkCells/cells=4
`

func TestDocs(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "reference", "growth.md")
	before := "# Growth\n"
	for _, g := range growths() {
		before += "<!-- " + g.name + " begin -->\nold " + g.name + "\n<!-- " + g.name + " end -->\n"
	}
	goals := filepath.Join(folder, "reference", "performance.md")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(before), 0o600), os.Mkdir(filepath.Join(folder, "images"), 0o700),
		os.WriteFile(goals, []byte("<!-- goals begin -->\n<!-- goals end -->\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	text := heading("all-cells", time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), "0.25") + "\n" + cells
	if err := writeDocs(folder, []record{parseRecord(suite{name: "all-cells"}, text)}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table := `![One protector over more cells, real core](../images/growth-cells.svg)

| cells | 1 | 8 |
| --- | ---: | ---: |
| status, KiB: 20 reservations in each cell | 3.93 | 30.1 |
| one client, ms: status write, 20 reservations in each | 6.52 | 18.7 |
| 64 callers, reviews a second: one protector | 1,396 | – |
| 64 callers, ms: review, p50 | 42.1 | – |
| 64 callers, ms: p99 | 94.8 | – |

Suite all-cells, 2026-11-21 13:00 UTC, load average 0.25.
`
	if diff := cmp.Diff(strings.ReplaceAll(before, "old cells\n", table), string(after)); diff != "" {
		t.Errorf("growth.md (-want +got):\n%s", diff)
	}
	wantDots(t, filepath.Join(folder, "images", "growth-cells.svg"), 7) // one for each figure of the table
}

func wantDots(t *testing.T, file string, want int) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dots, decoder := 0, xml.NewDecoder(strings.NewReader(string(raw)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is no XML: %v", file, err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "circle" {
			dots++
		}
	}
	if dots != want {
		t.Errorf("%s has %d dots, want %d", file, dots, want)
	}
}

func TestGrouped(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.0333333: "0.0333", 3.929: "3.93", 10: "10", 25.03: "25", 147.06: "147", 1396: "1,396", 100_000: "100,000", -2150.4: "-2,150",
	} {
		if got := grouped(value); got != want {
			t.Errorf("grouped(%v) = %q, want %q", value, got, want)
		}
	}
}
