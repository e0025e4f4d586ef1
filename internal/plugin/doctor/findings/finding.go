// Package findings judges what a caller has read of an installation: of its core clusters, and of the clusters of its cells.
//
// It is pure: it takes the readings and a time, and returns findings.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Forbidden names the objects that the reader may not read. It is empty if the check failed for another reason.
	Forbidden string `json:"-"`
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
	found := f.finding(Unknown, what+" cannot be read: "+sentence(err), do, "")
	if apierrors.IsForbidden(err) {
		found.Forbidden = what
	}
	return []Finding{found}
}

// orOK returns the findings, or an OK finding if there are none.
func (f reporter) orOK(found []Finding, format string, of ...any) []Finding {
	if len(found) > 0 {
		return found
	}
	return f.ok(format, of...)
}

// MergeForbidden replaces the findings of each cluster about missing permissions of the user by one of the check rights. It keeps the order of
// the others.
func MergeForbidden(all []Finding) []Finding {
	var merged []Finding
	for i := range all {
		where := all[i].Where
		isOfUser := func(f Finding) bool {
			return f.Where == where && (f.Forbidden != "" || f.Check == "rights" && f.Verdict == Warning)
		}
		forbidden := slices.ContainsFunc(all, func(f Finding) bool { return f.Where == where && f.Forbidden != "" })
		switch {
		case !forbidden || !isOfUser(all[i]):
			merged = append(merged, all[i])
		case slices.IndexFunc(all, isOfUser) == i:
			merged = append(merged, mergedForbidden(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return !isOfUser(f) })))
		}
	}
	return merged
}

// mergedForbidden merges findings of one cluster.
func mergedForbidden(all []Finding) Finding {
	var unread, checks []string
	f := reporter{all[0].Where, "rights"}.finding(Unknown, "", "Ask for these permissions, or use --as: docs/concepts/security.md. -o wide shows each error.", "")
	for i := range all {
		if all[i].Forbidden == "" {
			f.Found = " " + all[i].Found // the permissions that every user needs
			continue
		}
		if !slices.Contains(unread, all[i].Forbidden) {
			unread = append(unread, all[i].Forbidden)
		}
		if !slices.Contains(checks, all[i].Check) {
			checks = append(checks, all[i].Check)
		}
		if strings.HasPrefix(all[i].Do, kubeconfigLacks) {
			f.Do = all[i].Do
		}
	}
	f.Found = fmt.Sprintf("You may not read %s, so these checks could not be completed: %s.", strings.Join(unread, ", "), strings.Join(checks, ", ")) + f.Found
	return f
}

// Checks returns the names of all checks.
func Checks() []string {
	return []string{
		"apiserver", "cells", "certificate", "clock", "crds", "exempt", "finalizers", "guarding", "labels", "pods", "protectors",
		"rights", "rings", "scheduling", "targets", "tokens", "vanished", "versions", "webhook",
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
