package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Otherwise a stale mutant, whose text is no longer in the code, would be noticed only in a full run, which takes an hour.
func TestNoMutantIsStale(t *testing.T) {
	t.Chdir("../..")
	mutants, err := load(mutantsFile, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) == 0 {
		t.Error("load() returned no mutants")
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.Name] {
			t.Errorf("two mutants are named %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

func TestTableHasWhatCaughtEachMutant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report", "table.md")
	if err := writeTable(file, []mutant{{Rule: "1", Name: "admits too much"}, {Rule: "S2", Name: "lowers a share"}}, []string{"simulation, seed 1", ""}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = "| rule | fault | caught by |\n| --- | --- | --- |\n| 1 | admits too much | simulation, seed 1 |\n| S2 | lowers a share | nothing |\n"
	if got := string(raw); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
