// Package doctor judges what a caller has read of an installation: of its core clusters, and of the clusters of its cells.
//
// It is pure: it takes the readings and a time, and returns findings.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is the severity of a finding.
type Verdict string

// Verdicts, from best to worst.
const (
	// OK means that the check passed.
	OK Verdict = "ok"
	// Warning means that something is wrong, but floors hold and removals within the budget are admitted.
	Warning Verdict = "warning"
	// Unknown means that the check could not run.
	Unknown Verdict = "unknown"
	// Problem means that Breakwater fails at its purpose: pods are not guarded, or removals within the budget are denied.
	Problem Verdict = "problem"
)

// Finding is the result of one check. Its JSON form is stable.
type Finding struct {
	// Where is the cluster: "core", "core NAME" if there are several, "cell NAME", or "here".
	Where string `json:"where"`
	// Check is the name of the check, such as certificate.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Found describes the result in a sentence.
	Found string `json:"found"`
	// Do says how to fix it. It is empty if no action is needed.
	Do string `json:"do,omitempty"`
	// Runbook is the name of a page in docs/runbooks, if one covers the finding.
	Runbook string `json:"runbook,omitempty"`
}

// reporter makes the findings of one check in one cluster.
type reporter struct{ where, check string }

func (f reporter) ok(format string, of ...any) []Finding {
	return []Finding{{Where: f.where, Check: f.check, Verdict: OK, Found: fmt.Sprintf(format, of...)}}
}

func (f reporter) finding(verdict Verdict, found, do, runbook string) Finding {
	return Finding{Where: f.where, Check: f.check, Verdict: verdict, Found: found, Do: do, Runbook: runbook}
}

// unreadable is an Unknown finding: the objects could not be read.
func (f reporter) unreadable(what string, err error, do string) []Finding {
	return []Finding{f.finding(Unknown, what+" cannot be read: "+sentence(err), do, "")}
}

// orOK returns the findings, or an OK finding if there are none.
func (f reporter) orOK(found []Finding, format string, of ...any) []Finding {
	if len(found) > 0 {
		return found
	}
	return f.ok(format, of...)
}

// Checks returns the names of all checks.
func Checks() []string {
	return []string{
		"apiserver", "cells", "certificate", "clock", "crds", "exempt", "finalizers", "guarding", "pods", "protectors",
		"rights", "rings", "scheduling", "targets", "vanished", "versions", "webhook",
	}
}

// OfChecks returns the findings of the named checks and those about unreachable clusters. It returns all findings if no check is named.
func OfChecks(all []Finding, checks []string) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool {
		return len(checks) > 0 && f.Check != "apiserver" && !slices.Contains(checks, f.Check)
	})
}

// Worst returns the worst verdict of the findings, or OK if there are none.
func Worst(all []Finding) Verdict {
	worst := OK
	for i := range all {
		if rank(all[i].Verdict) > rank(worst) {
			worst = all[i].Verdict
		}
	}
	return worst
}

// SortByVerdict sorts findings by verdict, worst first. The sort is stable.
func SortByVerdict(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(rank(b.Verdict), rank(a.Verdict)) })
}

func rank(v Verdict) int { return slices.Index([]Verdict{OK, Warning, Unknown, Problem}, v) }

// joinNames joins at most five names.
func joinNames(names []string) string {
	const maxNames = 5
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// sentence ends the text of an error with a period.
func sentence(err error) string { return strings.TrimSuffix(err.Error(), ".") + "." }
