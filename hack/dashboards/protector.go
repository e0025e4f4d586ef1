package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func protector() (dashboard.Dashboard, error) {
	of := func(metric string) string { return metric + `{protector="$protector"}` }
	return page("breakwater-protector", "Breakwater / Protector", "One PodProtector: its pods, floor, reservations and denials.",
		[]*dashboard.QueryVariableBuilder{single("protector", "Protector", "label_values(breakwater_protector_floor, protector)")},
		row{"Now", []line{{4, []panel{
			number("Available", "short", one(`max(`+of("breakwater_protector_available")+`)`, "pods")),
			number("Floor", "short", one(`max(`+of("breakwater_protector_floor")+`)`, "pods")),
			number("Budget", "short", one(`min(`+of("breakwater_protector_budget")+`)`, "pods")).Thresholds(colors("red", from(0, "yellow"), from(1, "green"))).
				Description("Available pods minus the floor and the open reservations. Other limits, such as maxConcurrentLag and domain loss, can leave less."),
			number("Open reservations", "short", one(`max(`+of("breakwater_protector_reservations")+`)`, "reservations")),
			number("Oldest reservation", "s", one(`max(`+of("breakwater_protector_oldest_reservation_age_seconds")+`)`, "age")).Thresholds(colors("green", from(120, "yellow"), from(600, "red"))),
		}}}},
		row{"Over time", []line{{12, []panel{
			lines("Available pods and floor", "short", []query{
				{expr: `max(` + of("breakwater_protector_available") + `)`, legend: "available"},
				{expr: `max(` + of("breakwater_protector_available") + `) - max(` + of("breakwater_protector_reservations") + `)`, legend: "minus reservations"},
				{expr: `max(` + of("breakwater_protector_floor") + `)`, legend: "floor"},
			}).OverrideByName("available", fixed("green")).OverrideByName("minus reservations", fixed("blue")).OverrideByName("floor", dashed("red")).Min(0),
		}}, {8, []panel{
			lines("Refusals", "ops", one(`sum by (core) (rate(`+of("breakwater_webhook_refusals_total")+`[$__rate_interval]))`, "in {{core}}")),
			lines("Open reservations and their limit", "short", []query{
				{expr: `max(` + of("breakwater_protector_reservations") + `)`, legend: "open"},
				{expr: `max(` + of("breakwater_protector_reservation_limit") + `)`, legend: "limit"},
			}).OverrideByName("limit", dashed("red")),
			lines("Age of the oldest reservation", "s", one(`max(`+of("breakwater_protector_oldest_reservation_age_seconds")+`)`, "age")),
		}}, {8, []panel{
			states("Spread as spec.spread requires", one(`max(`+of("breakwater_aggregator_spread_satisfied")+`)`, "SpreadSatisfied")).
				Description("Of protectors with spec.spread."),
			lines("Share of the largest domain", "percentunit", one(`max(`+of("breakwater_aggregator_spread_largest_domain_ratio")+`)`, "share")).Min(0).
				Description("Of protectors with spec.spread."),
		}}}},
	)
}
