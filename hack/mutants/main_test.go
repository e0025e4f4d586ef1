package main

import (
	"os"
	"path/filepath"
	"strings"
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

// A run of some mutants keeps the rows of the others.
func TestTableKeepsRowsOfUntriedMutants(t *testing.T) {
	t.Chdir("../..")
	all, err := load(mutantsFile, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "table.md")
	if err := os.WriteFile(file, []byte("before\n"+tableBegins+tableEnds+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, caught := range []map[string]string{{all[1].Name: "a test", "gone": "a test"}, {all[0].Name: "seed 1"}} {
		if err := updateTable(file, caught); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := func(m mutant, by string) string { return "| " + m.Rule + " | " + m.Name + " | " + by + " |\n" }
	want := "before\n" + tableBegins + "| rule | fault | caught by |\n| --- | --- | --- |\n" + row(all[0], "seed 1") + row(all[1], "a test") + tableEnds + "\nafter\n"
	if got := string(raw); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, strings.TrimSpace(want))
	}
}
