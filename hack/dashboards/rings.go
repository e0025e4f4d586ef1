package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// available selects the states of the shards that objects are assigned to.
const available = `state=~"Ready|Expired|Uncertain"`

func rings() (dashboard.Dashboard, error) {
	return page("breakwater-rings", "Breakwater / Rings", "ClusterRings: their shards and objects, how objects move, and what the sharder does.",
		[]*dashboard.QueryVariableBuilder{several("ring", "Ring", "label_values(breakwater_ring_shards, ring)")},
		row{"Now", []line{{4, ringNumbers()}}},
		row{"Shards and objects", []line{{8, []panel{
			stacked("Shards by state", "short", one(`sum by (state) (max by (ring, state) (breakwater_ring_shards{ring=~"$ring"}))`, "{{state}}")).
				OverrideByName("Ready", fixed("green")).OverrideByName("Expired", fixed("yellow")).OverrideByName("Uncertain", fixed("orange")).
				OverrideByName("Dead", fixed("red")).
				Description("Objects are assigned to the first three. No shard works on the objects of an Expired or Uncertain one."),
			lines("Objects by state", "short", one(`sum by (state) (max by (ring, state) (breakwater_ring_objects{ring=~"$ring"}))`, "{{state}}")).
				Description("As of the last full resync, without controlled objects. Draining objects are assigned too."),
			lines("Largest shard ÷ mean", "percentunit", one(`max by (ring) (breakwater_ring_largest_shard_objects{ring=~"$ring"}) * `+
				`sum by (ring) (max by (ring, state) (breakwater_ring_shards{`+available+`})) / (max by (ring) (breakwater_ring_objects{state="assigned"}) > 0)`, "{{ring}}")).
				Description("100 % is a perfect balance. With the default number of tokens, up to 105 % is normal for many objects."),
		}}}},
		row{"Moves", []line{{8, []panel{
			stacked("Objects that a shard was asked to release", "ops", one(`sum by (outcome) (rate(breakwater_ring_moves_total{ring=~"$ring"}[$__rate_interval]))`, "{{outcome}}")),
			stacked("Assigned without the webhook", "ops", one(`sum by (cause) (rate(breakwater_ring_assignments_total{ring=~"$ring"}[$__rate_interval]))`, "{{cause}}")).
				Description("Objects that a resync assigned: the webhook missed them, their shard died, or their controller moved."),
			lines("Shards removed from a ring", "short", one(`sum by (ring) (increase(breakwater_ring_revoked_shards_total{ring=~"$ring"}[10m]))`, "{{ring}}")).
				Description("In 10 minutes. They did not release an object within drainTimeoutSeconds."),
		}}}},
		row{"Resyncs", []line{{8, []panel{
			stacked("Resyncs by outcome", "ops", one(`sum by (outcome) (rate(breakwater_ring_passes_total{ring=~"$ring"}[$__rate_interval]))`, "{{outcome}}")),
			lines("Duration", "s", []query{
				{expr: ringQuantile("0.99", "pass_duration"), legend: "p99 {{ring}}"}, {expr: ringQuantile("0.5", "pass_duration"), legend: "p50 {{ring}}"},
			}).Description("Including the moves that a resync caused."),
			lines("Failed writes and conflicts", "ops", []query{
				{expr: `sum by (ring) (rate(breakwater_ring_failed_writes_total{ring=~"$ring"}[$__rate_interval]))`, legend: "failed {{ring}}"},
				{expr: `sum by (ring) (rate(breakwater_ring_patch_conflicts_total{ring=~"$ring"}[$__rate_interval]))`, legend: "conflicts {{ring}}"},
			}),
		}}}},
		row{"Admission", []line{{8, []panel{
			stacked("Reviews by reason", "ops", one(`sum by (reason) (rate(breakwater_ring_admission_reviews_total{ring=~"$ring"}[$__rate_interval])) > 0`, "{{reason}}")),
			lines("Response time", "s", []query{
				{expr: ringQuantile("0.99", "admission_duration"), legend: "p99 {{ring}}"}, {expr: ringQuantile("0.5", "admission_duration"), legend: "p50 {{ring}}"},
			}),
			stacked("Left to the resync", "ops", one(`sum by (reason) (rate(breakwater_ring_admission_reviews_total{ring=~"$ring",`+
				`reason=~"NoShards|ControllerUnassigned|ControllerUnread|NotReady|TooLarge|Failed"}[$__rate_interval])) > 0`, "{{reason}}")).
				Description("Objects that were stored without a shard."),
		}}}},
	)
}

func ringNumbers() []panel {
	state := func(name string) []query {
		return one(`sum(max by (ring) (breakwater_ring_objects{ring=~"$ring",state="`+name+`"}))`, "objects")
	}
	return []panel{
		number("Rings", "short", one(`count(max by (ring) (breakwater_ring_shards{ring=~"$ring",state="Ready"}))`, "rings")),
		number("Rings without a ready shard", "short", one(`count(max by (ring) (breakwater_ring_shards{ring=~"$ring",state="Ready"}) == 0) or vector(0)`, "rings")).
			Thresholds(colors("green", from(1, "red"))),
		number("Ready shards", "short", one(`sum(max by (ring) (breakwater_ring_shards{ring=~"$ring",state="Ready"}))`, "shards")),
		number("Assigned objects", "short", state("assigned")),
		number("Draining objects", "short", state("draining")),
		number("Unassigned objects", "short", state("unassigned")).Thresholds(colors("green", from(1, "red"))),
	}
}

// ringQuantile returns a query for a quantile of one of the histograms of rings.
func ringQuantile(quantile, histogram string) string {
	return `histogram_quantile(` + quantile + `, sum by (le, ring) (rate(breakwater_ring_` + histogram + `_seconds_bucket{ring=~"$ring"}[$__rate_interval])))`
}
