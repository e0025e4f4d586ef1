package main

import "testing"

// Otherwise a stale mutant, whose text is no longer in the code, would be noticed only in a full run, which takes an hour.
func TestNoMutantIsStale(t *testing.T) {
	t.Chdir("../..")
	mutants, err := load("hack/mutants/mutants.yaml", "")
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
