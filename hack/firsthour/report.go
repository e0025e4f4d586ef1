package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// report is what the first hour of a user cost, and what kubectl received in two outages.
type report struct {
	// ValuesNeeded counts the chart values that the commands set, Commands the commands up to the first refusal, the refused one included.
	ValuesNeeded int `json:"values_needed"`
	Commands     int `json:"commands"`
	// Pages counts the pages of the documentation that have these commands.
	Pages int `json:"pages_to_refusal"`
	// Denied counts commands that the webhook refused because of the floor: 1, or 0 if none was.
	Denied int `json:"refused"`
	// SecondsToDenial is the time from the first command to the refusal, with the waits of the commands.
	SecondsToDenial float64 `json:"seconds_to_refusal"`
	// RemovedBeforeDenial counts the pods of the labeled Deployment that were deleted before the first refusal.
	RemovedBeforeDenial int `json:"removed_before_refusal"`
	// DrainInternalErrorsInOutage counts answers with the status 500 to the evictions of kubectl drain while the core does not answer Breakwater.
	DrainInternalErrorsInOutage int `json:"drain_internal_errors_in_outage"`
	// DenialsInOutage counts all answers of 400 and above to evictions and deletions of pods meanwhile. DenialMillisecondsInOutage is the 99th
	// percentile of the times of those that began after the first refusal: from then on the webhook knows that the core is silent. Those before
	// it wait for the core, at most FirstDenialMillisecondsInOutage.
	DenialsInOutage                 int   `json:"refusals_in_outage"`
	FirstDenialMillisecondsInOutage int64 `json:"first_refusal_ms_in_outage_max"`
	DenialMillisecondsInOutage      int64 `json:"refusal_ms_in_outage_p99"`
	// AnswersInOutage counts these answers by status.
	AnswersInOutage map[string]int `json:"answers_in_outage"`
	// UnprotectedDeleted and UnprotectedDenied count answers to deletions of pods in a namespace without any protector while no webhook runs.
	UnprotectedDeleted int `json:"unprotected_deleted_while_webhook_down"`
	UnprotectedDenied  int `json:"unprotected_denied_while_webhook_down"`
	// CommandLines are the commands that were counted.
	CommandLines []string `json:"command_lines"`
}

// write prints the report, and writes it as report.json into a folder, which it creates.
func (r *report) write(out io.Writer, folder string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s\n", raw)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "report.json"), append(raw, '\n'), 0o600)
}

// setOutage computes the figures of the outage of the core. drain are the answers to kubectl drain, deletions those to kubectl delete.
func (r *report) setOutage(drain, deletions []answer) {
	for _, a := range drain {
		if a.status == internalError {
			r.DrainInternalErrorsInOutage++
		}
	}
	r.AnswersInOutage = map[string]int{}
	all := slices.Concat(drain, deletions)
	slices.SortFunc(all, func(a, b answer) int { return a.ended.Compare(b.ended) })
	var first, later []time.Duration
	var known time.Time
	for _, a := range all {
		r.AnswersInOutage[fmt.Sprint(a.status)]++
		switch {
		case !a.denied():
		case known.IsZero(), a.ended.Add(-a.took).Before(known):
			first = append(first, a.took)
		default:
			later = append(later, a.took)
		}
		if a.denied() && known.IsZero() {
			known = a.ended
		}
	}
	r.DenialsInOutage, r.FirstDenialMillisecondsInOutage = len(first)+len(later), percentile(first, 1).Milliseconds()
	r.DenialMillisecondsInOutage = percentile(later, 0.99).Milliseconds()
}

// percentile returns the smallest of the times that at least the share q of them does not exceed; 0 if there are none.
func percentile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
