package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func fleet() (dashboard.Dashboard, error) {
	return page("breakwater-fleet", "Breakwater / Clusters", "All cells and protectors: health, denials, and what needs an operator.",
		[]*dashboard.QueryVariableBuilder{several("cell", "Cell", "label_values(breakwater_cell_condition, cell)")},
		row{"Now", []line{{4, fleetNumbers()}}},
		row{"Cells", []line{{8, []panel{
			states("Cells report", one(`max by (cell) (breakwater_cell_condition{cell=~"$cell",condition="AggregationFresh"})`, "{{cell}}")).
				Description("The condition AggregationFresh: whether the aggregator of the cell, or of each of its slots, reports."),
			states("Cells are guarded", one(`max by (cell) (breakwater_cell_condition{cell=~"$cell",condition="Guarded"})`, "{{cell}}")).
				Description("The condition Guarded: whether the cluster's API server calls the webhook for every removal of the cell's pods."),
			lines("Age of the last heartbeat", "s", one(`max by (cell) (breakwater_cell_heartbeat_age_seconds{cell=~"$cell"})`, "{{cell}}")).
				Description("Up to 20 s is normal. A cell is silent when the age exceeds its staleAfter."),
		}}, {8, []panel{
			lines("Counted pods", "short", one(`max by (cell) (breakwater_aggregator_pods{cell=~"$cell"})`, "{{cell}}")),
			stacked("Open reservations", "short", one(`max by (cell) (breakwater_cell_reservations{cell=~"$cell"})`, "{{cell}}")),
			lines("Age of the oldest reservation", "s", one(`max by (cell) (breakwater_cell_oldest_reservation_age_seconds{cell=~"$cell"})`, "{{cell}}")),
		}}, {8, []panel{
			stacked("Reservations settled", "ops", one(`sum by (reason) (rate(breakwater_aggregator_settled_total{cell=~"$cell"}[$__rate_interval]))`, "{{reason}}")),
			lines("Count writes", "ops", one(`sum by (cell, result) (rate(breakwater_aggregator_writes_total{cell=~"$cell"}[$__rate_interval]))`, "{{cell}} {{result}}")),
			lines("Write duration", "s", []query{
				{expr: writeTime("0.99"), legend: "p99 {{cell}}", exemplars: true}, {expr: writeTime("0.5"), legend: "p50 {{cell}}"},
			}).Description("How long an aggregator waits for the core to store counts. Diamonds are exemplars, which link to the trace of a round."),
			lines("Clocks ahead of API servers", "s", []query{
				{expr: `max by (cell, instance) (breakwater_aggregator_cell_clock_ahead_seconds{cell=~"$cell"})`, legend: "aggregator {{instance}} of cell {{cell}}"},
				{expr: `max by (core, instance) (breakwater_webhook_core_clock_ahead_seconds)`, legend: "webhook {{instance}} of core {{core}}"},
			}).Description("Accurate to about one second."),
		}}}},
		row{"Protectors", []line{{8, []panel{
			stacked("Protectors by budget", "short", one(`max by (budget) (breakwater_protectors)`, "{{budget}}")).
				OverrideByName("Open", fixed("green")).OverrideByName("Exhausted", fixed("yellow")).OverrideByName("Broken", fixed("red")),
			stacked("Removals by verdict", "ops", one(`sum by (verdict) (rate(breakwater_webhook_reviews_total{cell=~"$cell"}[$__rate_interval])) > 0`, "{{verdict}}")),
			lines("Denials by protector", "ops", one(`topk(10, sum by (core, protector) (rate(breakwater_webhook_refusals_total[$__rate_interval]))) > 0`, "{{protector}} in {{core}}")),
		}}, {10, []panel{
			series("Protectors with the lowest budget", `bottomk(20, min by (protector) (breakwater_protector_budget))`,
				map[string]string{"protector": "Protector", "Value": "Budget"}).
				Thresholds(colors("red", from(0, "yellow"), from(1, "green"))).OverrideByName("Protector", toProtector()),
			series("Alerts", `ALERTS{alertname=~"Breakwater.*"}`, map[string]string{"alertname": "Alert", "alertstate": "State", "severity": "Severity"}, "Value", "namespace", "job").
				Description("Firing alerts of this chart's rules. The list should be empty."),
		}}}},
		row{"Sources of protectors", []line{{8, []panel{
			lines("Workloads", "short", []query{
				{expr: `sum by (kind) (max by (kind, namespace, job) (breakwater_generator_protected_sources)) > 0`, legend: "{{kind}} with protectors"},
				{expr: `max(breakwater_generator_vanished_sources)`, legend: "vanished"},
				{expr: `max(breakwater_generator_retained_sources)`, legend: "retained"},
				{expr: `max by (reason) (breakwater_generator_unprotected_sources)`, legend: "unprotected: {{reason}}"},
			}),
			lines("Vanished protectors", "short", []query{
				{expr: `max(breakwater_generator_vanished_protectors)`, legend: "known to the generator"},
				{expr: `max by (core) (breakwater_webhook_vanished_protectors)`, legend: "enforced by webhooks in {{core}}"},
			}),
			stacked("Large decreases pending", "short", one(`max by (reason) (breakwater_generator_pending_decreases)`, "{{reason}}")).
				Description("Floors that stay in force although a large decrease was requested. LimitExceeded and Cascade are held by the release brake."),
			series("Versions", `count by (component, version) (breakwater_build_info)`,
				map[string]string{"component": "Component", "version": "Version", "Value": "Processes"}),
		}}}},
	)
}

func fleetNumbers() []panel {
	return []panel{
		number("Reachable cores", "short", one(`sum(max by (core) (breakwater_webhook_core_up))`, "cores")).Thresholds(colors("red", from(1, "green"))),
		number("Silent cells", "short", one(`count(max by (cell) (breakwater_cell_condition{condition="AggregationFresh"}) == 0) or vector(0)`, "cells")).Thresholds(colors("green", from(1, "red"))),
		number("Floors broken", "short", one(`max(breakwater_protectors{budget="Broken"})`, "protectors")).Thresholds(colors("green", from(1, "red"))),
		number("Budgets exhausted", "short", one(`max(breakwater_protectors{budget="Exhausted"})`, "protectors")).Thresholds(colors("green", from(1, "yellow"))),
		number("Refusals", "ops", one(`sum(rate(breakwater_webhook_refusals_total[$__rate_interval]))`, "refusals")).Thresholds(colors("green", from(1, "yellow"))),
		number("Alerts firing", "short", one(`count(ALERTS{alertname=~"Breakwater.*",alertstate="firing"}) or vector(0)`, "alerts")).Thresholds(colors("green", from(1, "red"))),
	}
}

// toProtector is the override that links rows of a table to the dashboard of their protector.
func toProtector() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "links", Value: []map[string]string{{
		"title": "Open the protector", "url": "/d/breakwater-protector?var-datasource=${datasource}&var-protector=${__value.text}&${__url_time_range}",
	}}}}
}

// writeTime returns a query for a quantile of the time that each cell's aggregator waits for the core.
func writeTime(quantile string) string {
	return `histogram_quantile(` + quantile + `, sum by (le, cell) (rate(breakwater_aggregator_write_duration_seconds_bucket{cell=~"$cell"}[$__rate_interval])))`
}
