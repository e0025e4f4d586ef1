package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

const (
	admitting = `verdict=~"Unguarded|OtherCell|NotAvailable|Unprotected|Reserved|Forced|DryRun"`
	refusing  = `verdict!~"Unguarded|OtherCell|NotAvailable|Unprotected|Reserved|Forced|DryRun"`
)

func webhook() (dashboard.Dashboard, error) {
	return page("breakwater-webhook", "Breakwater / Webhook", "Reviews of API servers, how fast they are answered, and the load on the cores.",
		[]*dashboard.QueryVariableBuilder{
			several("cell", "Cell", "label_values(breakwater_webhook_reviews_total, cell)"),
			several("core", "Core", "label_values(breakwater_webhook_core_up, core)"),
		},
		row{"Reviews", []line{{8, reviews()}, {8, times()}}},
		row{"Batches and writes to cores", []line{{8, batches()}, {8, writes()}}},
		row{"Other work", []line{{8, dependencies()}, {8, processes()}}},
	)
}

func reviews() []panel {
	rate := func(by, selector string) string {
		return `sum by (` + by + `) (rate(breakwater_webhook_reviews_total{cell=~"$cell",` + selector + `}[$__rate_interval]))`
	}
	return []panel{
		stacked("Admitted, by verdict", "ops", one(rate("verdict", admitting)+" > 0", "{{verdict}}")),
		stacked("Denied, by verdict", "ops", one(rate("verdict", refusing)+" > 0", "{{verdict}}")),
		stacked("By operation", "ops", one(rate("operation", `operation!=""`), "{{operation}}")),
	}
}

func times() []panel {
	quantile := func(q, by string) string {
		label := ""
		if by != "" {
			label = ", " + by
		}
		return `histogram_quantile(` + q + `, sum by (le` + label + `) (rate(breakwater_webhook_review_duration_seconds_bucket{cell=~"$cell"}[$__rate_interval])))`
	}
	return []panel{
		lines("Response time", "s", []query{
			{expr: quantile("0.99", "cell"), legend: "p99 {{cell}}", exemplars: true},
			{expr: quantile("0.5", "cell"), legend: "p50 {{cell}}"},
		}).Description("Diamonds are exemplars, which link to the trace of a review if the data source is configured for traces."),
		density("Distribution of response times", "s", `sum by (le) (increase(breakwater_webhook_review_duration_seconds_bucket{cell=~"$cell"}[$__rate_interval]))`),
		stacked("Reviews in flight", "short", one(`sum by (instance) (breakwater_webhook_reviews_in_flight)`, "{{instance}}")),
	}
}

func batches() []panel {
	return []panel{
		lines("Removals decided by one write", "short", []query{
			{expr: `histogram_quantile(0.99, sum by (le) (rate(breakwater_webhook_flight_size_bucket[$__rate_interval])))`, legend: "p99"},
			{expr: `sum(rate(breakwater_webhook_flight_size_sum[$__rate_interval])) / (sum(rate(breakwater_webhook_flight_size_count[$__rate_interval])) > 0)`, legend: "mean"},
		}),
		lines("Removals waiting for a write", "short", one(`sum by (core) (breakwater_webhook_removals_waiting{core=~"$core"})`, "{{core}}")),
		lines("Forwarded to another replica", "ops", one(`sum by (core, result) (rate(breakwater_webhook_handed_over_total{core=~"$core"}[$__rate_interval]))`, "{{core}} {{result}}")).
			Description("Removals that replicas forward to each other, in storms and while several of them write one protector."),
	}
}

func writes() []panel {
	return []panel{
		lines("Status writes", "ops", one(`sum by (core, result) (rate(breakwater_webhook_status_writes_total{core=~"$core"}[$__rate_interval]))`, "{{core}} {{result}}")),
		lines("Writes per reserved removal", "short", one(`sum(rate(breakwater_webhook_status_writes_total{core=~"$core",result="written"}[$__rate_interval])) / `+
			`(sum(rate(breakwater_webhook_reviews_total{cell=~"$cell",verdict="Reserved"}[$__rate_interval])) > 0)`, "writes")).Min(0),
		lines("Conflict ratio", "percentunit", one(`sum by (core) (rate(breakwater_webhook_status_writes_total{core=~"$core",result="conflict"}[$__rate_interval])) / `+
			`(sum by (core) (rate(breakwater_webhook_status_writes_total{core=~"$core"}[$__rate_interval])) > 0)`, "{{core}}")).Min(0),
		lines("Released reservations", "ops", one(`sum by (core) (rate(breakwater_webhook_given_back_total{core=~"$core"}[$__rate_interval]))`, "{{core}}")),
	}
}

func dependencies() []panel {
	return []panel{
		states("Reachable cores", one(`max by (core) (breakwater_webhook_core_up{core=~"$core"})`, "{{core}}")),
		lines("Wake-ups of controllers", "ops", one(`sum by (way, result) (rate(breakwater_webhook_nudges_total{cell=~"$cell"}[$__rate_interval]))`, "{{way}} {{result}}")),
		stacked("Scheduling policies", "ops", one(`sum by (reason) (rate(breakwater_scheduling_reviews_total{cell=~"$cell"}[$__rate_interval]))`, "{{reason}}")),
		lines("Pending charges", "short", one(`max by (core) (breakwater_webhook_owed_removals{core=~"$core"})`, "{{core}}")),
	}
}

func processes() []panel {
	only := ` * on (instance, job) group_left () breakwater_build_info{component="webhook"}`
	return []panel{
		number("Certificate expires in", "s", one(`min(breakwater_webhook_certificate_expiry_timestamp_seconds) - time()`, "certificate")).Thresholds(colors("red", from(86400, "yellow"), from(14*86400, "green"))),
		lines("Processors", "short", one(`rate(process_cpu_seconds_total[$__rate_interval])`+only, "{{instance}}")),
		lines("Memory", "bytes", one(`process_resident_memory_bytes`+only, "{{instance}}")),
	}
}
