package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// goal is a limit of a figure.
type goal struct {
	key, what string
	// limit is the most that the figure may be, or the least if least is set. 0 means that the figure has no goal and is shown beside others.
	limit float64
	least bool
	unit  string
}

// goals returns the goals of performance, in the order of the table.
func goals() []goal {
	return []goal{
		{key: "steady_ratio", what: "admitted/s, one protector, 64 clients, over a webhook that answers at once", limit: 0.92, least: true},
		{key: "cold_ratio", what: "the same for the first 250 removals with a new protector", limit: 0.8, least: true},
		{key: "cpu_ms_over_answering", what: "CPU of all processes per admitted removal, above that webhook", limit: 0.4, unit: " ms"},
		{key: "many_ratio", what: "time of 400 removals of 100 protectors of 12 pods, over that webhook", limit: 3},
		{key: "status_write_cpu_ms_0", what: "CPU of the core's API server for a status write, no reservations", limit: 1, unit: " ms"},
		{key: "status_write_cpu_ms_20", what: "the same, 20 reservations", limit: 1.3, unit: " ms"},
		{key: "status_write_cpu_ms_100", what: "the same, 100 reservations", limit: 2, unit: " ms"},
		{key: "uncontended_p99_over_write", what: "added p99 of an uncontended delete, over p99 of one status write", limit: 1.2},
		{key: "refused_ratio", what: "denials/s at budget 0, over removals/s of a webhook that answers at once; no write to the core", limit: 0.95, least: true},
		{key: "refused_webhook_cpu_ms", what: "CPU of the webhooks for a denial", unit: " ms"},
		{key: "answering_webhook_cpu_ms", what: "CPU of the webhooks for an answer at once", unit: " ms"},
		{key: "replicas_3_over_1", what: "three webhook replicas over one, one protector", limit: 0.95, least: true},
		{key: "wan_50ms_p50_over_rtt", what: "p50 of an uncontended removal with a round trip of 50 ms to the core, over that round trip", limit: 1.1},
		{key: "wan_100ms_p50_over_rtt", what: "the same, 100 ms", limit: 1.1},
		{key: "wan_50ms_storm_over_0ms", what: "admitted/s of a storm with 50 ms to the core, over 0 ms", limit: 0.95, least: true},
		{key: "aggregator_mib_100k_pods", what: "aggregator, 100,000 pods and 10,000 protectors: peak memory", limit: 120, unit: " MiB"},
		{key: "aggregator_write_all_s", what: "the same: from its start until all protectors are written", limit: 15, unit: " s"},
		{key: "spread_reviews_per_s", what: "webhook, 10,000 protectors, real core: reviews/s spread over all", limit: 1000, least: true},
		{key: "terraform_plan_cpu_s_1000", what: "Terraform and provider, a plan of 1,000 unchanged protectors: CPU", limit: 12, unit: " s"},
		{key: "terraform_plan_provider_cpu_s_1000", what: "the same: CPU of the provider", limit: 4, unit: " s"},
		{key: "terraform_apply_cpu_ms_per_resource", what: "an apply of 600 more: CPU of both for each, remote state", limit: 40, unit: " ms"},
		{key: "terraform_destroy_cpu_ms_per_resource", what: "a destroy of 1,000: the same", limit: 40, unit: " ms"},
		{key: "terraform_peak_mib_1000", what: "peak memory of the provider in these", limit: 200, unit: " MiB"},
		{key: "soak_growth_pct", what: "soak of " + soakDuration + ": growth of memory, last over first third, webhooks or aggregators", limit: 5, unit: " %"},
		{key: "soak_goroutines_growth_pct", what: "the same: goroutines", limit: 5, unit: " %"},
		{key: "soak_etcd_growth_pct", what: "the same: etcd of the core or a worker, in use after compaction", limit: 5, unit: " %"},
		{key: "soak_p99_growth_pct", what: "the same: p99 of removals", limit: 20, unit: " %"},
	}
}

// goalTable renders the goals as a Markdown table with the measured figures.
func goalTable(results []result) string {
	var out strings.Builder
	out.WriteString("| what | figure | goal | measured | rounds | |\n| --- | --- | ---: | ---: | --- | --- |\n")
	all := figures()
	for _, g := range goals() {
		rounds := all[g.key].rounds(results)
		measured, spread, verdict := "–", "", ""
		if len(rounds) > 0 {
			measured, verdict = grouped(median(rounds))+g.unit, g.verdict(median(rounds))
		}
		if len(rounds) > 1 {
			spread = fmt.Sprintf("%s to %s in %d", grouped(slices.Min(rounds)), grouped(slices.Max(rounds)), len(rounds))
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s | %s | %s |\n", g.what, g.key, g.bound(), measured, spread, verdict)
	}
	return out.String()
}

func (g goal) bound() string {
	switch {
	case g.limit == 0:
		return ""
	case g.least:
		return "≥ " + grouped(g.limit) + g.unit
	}
	return "≤ " + grouped(g.limit) + g.unit
}

func (g goal) verdict(measured float64) string {
	switch {
	case g.limit == 0:
		return ""
	case g.least && measured >= g.limit, !g.least && measured <= g.limit:
		return "met"
	}
	return "**missed**"
}

// grouped formats a number with three significant digits. Whole numbers get commas.
func grouped(value float64) string {
	if value == 0 {
		return "0"
	}
	if places := 2 - int(math.Floor(math.Log10(math.Abs(value)))); places > 0 && value != math.Trunc(value) {
		text := strconv.FormatFloat(value, 'f', min(places, 4), 64)
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole := strconv.FormatFloat(math.Abs(math.Round(value)), 'f', 0, 64)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if value < 0 {
		return "-" + whole
	}
	return whole
}
