// Package doctor judges what was read of an installation: of its core clusters, and of the clusters of its cells.
//
// It is pure: what was read and a time in, findings out.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is how well something is.
type Verdict string

// The verdicts, from the best to the worst.
const (
	// OK is as it should be.
	OK Verdict = "ok"
	// Warning is not as it should be; floors hold, and what has budget is admitted.
	Warning Verdict = "warning"
	// Unknown could not be looked at.
	Unknown Verdict = "unknown"
	// Problem keeps Breakwater from doing what it is for: pods are not guarded, or removals are refused that have budget.
	Problem Verdict = "problem"
)

// Finding is what was found of one thing. Written as JSON its shape is kept.
type Finding struct {
	// Where is the cluster: "core", "core NAME" where there are several, "cell NAME", or "here".
	Where string `json:"where"`
	// Check is the word for what was looked at, as certificate.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Found is what is so, in a sentence.
	Found string `json:"found"`
	// Do is what to do; empty when there is nothing to do.
	Do string `json:"do,omitempty"`
	// Runbook is the name of a page in docs/runbooks, if one is about it.
	Runbook string `json:"runbook,omitempty"`
}

// finder makes findings of one check in one place.
type finder struct{ where, check string }

func (f finder) ok(format string, of ...any) []Finding {
	return []Finding{{Where: f.where, Check: f.check, Verdict: OK, Found: fmt.Sprintf(format, of...)}}
}

func (f finder) bad(verdict Verdict, found, do, runbook string) Finding {
	return Finding{Where: f.where, Check: f.check, Verdict: verdict, Found: found, Do: do, Runbook: runbook}
}

// unread is that nothing is known, since it could not be read.
func (f finder) unread(what string, err error, do string) []Finding {
	return []Finding{f.bad(Unknown, what+" cannot be read: "+sentence(err), do, "")}
}

// or gives what was found, or that all is well when that is nothing.
func (f finder) or(found []Finding, format string, of ...any) []Finding {
	if len(found) > 0 {
		return found
	}
	return f.ok(format, of...)
}

// Checks are the words for what is looked at.
func Checks() []string {
	return []string{
		"apiserver", "cells", "certificate", "clock", "crds", "exempt", "finalizers", "guarding", "pods", "protectors",
		"rights", "rings", "scheduling", "targets", "vanished", "versions", "webhook",
	}
}

// Of are the findings of some checks, and those of clusters that could not be looked at; all of them if none is named.
func Of(all []Finding, checks []string) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool {
		return len(checks) > 0 && f.Check != "apiserver" && !slices.Contains(checks, f.Check)
	})
}

// Worst is the worst verdict of all; OK of none.
func Worst(all []Finding) Verdict {
	worst := OK
	for i := range all {
		if rank(all[i].Verdict) > rank(worst) {
			worst = all[i].Verdict
		}
	}
	return worst
}

// Order puts what is worst first, and leaves the rest as it is.
func Order(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(rank(b.Verdict), rank(a.Verdict)) })
}

func rank(v Verdict) int { return slices.Index([]Verdict{OK, Warning, Unknown, Problem}, v) }

// some names at most five of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// sentence ends what an error says.
func sentence(err error) string { return strings.TrimSuffix(err.Error(), ".") + "." }
