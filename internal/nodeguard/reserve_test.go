package nodeguard

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// fill makes all changes fail except those of space that is allocated, as on a full disk. It returns a function that makes room again.
func (f *askingFixture) fill() (makeRoom func()) {
	s := f.guard.store
	dir := s.dir
	s.dir = filepath.Join(dir, reserveFile) // not a directory
	return func() { s.dir = dir }
}

func TestFullDiskAndRestartForgetNoPods(t *testing.T) {
	f := newAskingFixture(t)
	before := f.run("before")
	f.fill()
	f.run("started-since")
	f.guard.drop(podhold.Entry{Pod: before}) // a client deleted it
	f.wantMetric("breakwater_node_unwritten_files", 2)
	f.wantMetric("breakwater_node_unstored_files", 0)
	if left, err := Exceptions(filepath.Dir(f.dir), "n"); err != nil || len(left) != 1 {
		t.Errorf("Exceptions() = %v, %v, want the held pod", left, err)
	}
	f.start()
	if got, want := f.shown(), []string{"started-since", "web-0"}; !slices.Equal(got, want) {
		t.Errorf("after a restart the kubelet sees %v, want %v", got, want)
	}
}

func TestUnwrittenFilesAreWrittenOnceThereIsRoom(t *testing.T) {
	f := newAskingFixture(t)
	makeRoom := f.fill()
	f.run("seen")
	f.guard.store.retry()
	f.wantMetric("breakwater_node_unwritten_files", 1)
	makeRoom()
	f.guard.store.retry()
	f.wantMetric("breakwater_node_unwritten_files", 0)
	if err := os.Remove(filepath.Join(f.dir, reserveFile)); err != nil {
		t.Fatal(err)
	}
	f.start()
	if got, want := f.shown(), []string{"seen", "web-0"}; !slices.Equal(got, want) {
		t.Errorf("after a restart the kubelet sees %v, want %v", got, want)
	}
}

// What was kept in the reserve must not replace what was written later.
func TestReserveForgetsWhatWasWritten(t *testing.T) {
	f := newAskingFixture(t)
	makeRoom := f.fill()
	seen := f.run("seen")
	makeRoom()
	f.run("seen")
	f.guard.drop(podhold.Entry{Pod: seen})
	f.start()
	if got, want := f.shown(), []string{"web-0"}; !slices.Equal(got, want) {
		t.Errorf("after a restart the kubelet sees %v, want %v", got, want)
	}
}

// A reserve that could not be written for a moment is written again, also when no file is left to write: what it has from before must not replace
// what was written since.
func TestOutdatedReserveIsWrittenAgain(t *testing.T) {
	f := newAskingFixture(t)
	makeRoom := f.fill()
	seen := f.run("seen")
	makeRoom()
	s := f.guard.store
	working := s.reserve.file
	failing, err := os.Open(filepath.Join(f.dir, reserveFile)) // it cannot be written, as on a disk that needs new space for each write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = failing.Close() })
	s.reserve.file = failing
	s.retry() // writes the file, but not the reserve
	f.wantMetric("breakwater_node_unwritten_files", 1)
	f.wantMetric("breakwater_node_unstored_files", 1)
	s.reserve.file = working
	s.retry()
	f.wantMetric("breakwater_node_unwritten_files", 0)
	f.guard.drop(podhold.Entry{Pod: seen}) // a client deleted the pod
	f.start()
	if got, want := f.shown(), []string{"web-0"}; !slices.Equal(got, want) {
		t.Errorf("after a restart the kubelet sees %v, want %v", got, want)
	}
}

// A reserve that could not be opened at the start must not replace what was written until it can be.
func TestLateReserveReplacesNothingNewer(t *testing.T) {
	f := newAskingFixture(t)
	makeRoom := f.fill()
	seen := f.run("seen")
	makeRoom()
	f.guard.store.reserve, f.guard.store.pending, f.guard.store.kept = nil, nil, nil
	f.guard.drop(podhold.Entry{Pod: seen})
	f.guard.store.allocate()
	f.guard.store.retry()
	f.start()
	if got, want := f.shown(), []string{"web-0"}; !slices.Equal(got, want) {
		t.Errorf("after a restart the kubelet sees %v, want %v", got, want)
	}
}

// A disk that is full before space could be reserved has no room for what is found out later. That must be visible.
func TestPodsThatARestartWouldForgetAreCounted(t *testing.T) {
	f := newAskingFixture(t)
	makeRoom := f.fill()
	f.guard.store.reserve = nil
	f.run("seen")
	f.wantMetric("breakwater_node_unstored_files", 1)
	makeRoom()
	f.guard.store.allocate()
	f.wantMetric("breakwater_node_unwritten_files", 1)
	f.wantMetric("breakwater_node_unstored_files", 0)
}

func TestReserve(t *testing.T) {
	big := bytes.Repeat([]byte{1}, reserveHalf/2)
	for claim, tc := range map[string]struct {
		writes []map[string][]byte
		// damaged is the half that a crash damaged, from 0; -1 for none.
		damaged int
		want    map[string][]byte
		kept    int
	}{
		"keeps the last content":         {[]map[string][]byte{{"a": {1}}, {"b": {2}, "c": nil}}, -1, map[string][]byte{"b": {2}, "c": nil}, 2},
		"forgets what was written":       {[]map[string][]byte{{"a": {1}}, {}}, -1, map[string][]byte{}, 0},
		"a crash leaves the one before":  {[]map[string][]byte{{"a": {1}}, {"b": {2}}}, 0, map[string][]byte{"a": {1}}, 1},
		"keeps as many files as it can":  {[]map[string][]byte{{"a": big, "b": big, "c": {3}}}, -1, map[string][]byte{"a": big, "c": {3}}, 2},
		"was never written":              {nil, -1, nil, 0},
		"keeps nothing if it is damaged": {[]map[string][]byte{{"a": {1}}}, 1, nil, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			dir := t.TempDir()
			r, err := openReserve(dir)
			if err != nil {
				t.Fatal(err)
			}
			kept := map[string]bool{}
			for _, files := range tc.writes {
				if kept, err = r.keep(files); err != nil {
					t.Fatal(err)
				}
			}
			if tc.damaged >= 0 {
				if _, err := r.file.WriteAt([]byte{0, 0, 0, 99, 99}, int64(tc.damaged)*reserveHalf); err != nil {
					t.Fatal(err)
				}
			}
			got, err := readReserve(dir)
			same := maps.EqualFunc(got, tc.want, func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })
			if err != nil || !same || len(kept) != tc.kept {
				t.Errorf("readReserve() has %d files (%v), and %d were kept, want %d and %d", len(got), err, len(kept), len(tc.want), tc.kept)
			}
			if size, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil || size.Size() != 2*reserveHalf {
				t.Errorf("the reserve has %d bytes (%v), want all of its space", size.Size(), err)
			}
		})
	}
}
