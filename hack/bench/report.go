package main

import (
	"maps"
	"regexp"
	"slices"
)

// figure defines a figure: the worst result, in that unit, of all benchmarks whose name matches.
type figure struct {
	benchmark, unit string
	// less is subtracted, and over is the divisor. Both are other figures.
	less, over *figure
	// lower means that a lower value is worse.
	lower bool
}

// figures returns the figures of report.json.
func figures() map[string]figure {
	storm := func(unit string) figure { return figure{benchmark: "^Storm$", unit: unit} }
	replicas := func(n string) *figure {
		return &figure{benchmark: "^Replicas/replicas=" + n + "$", unit: "removals/s", lower: true}
	}
	added := func(percentile string) figure {
		deletion := func(unit string) figure {
			return figure{benchmark: "^UncontendedDelete$", unit: unit + "-" + percentile + "-ms"}
		}
		protected, unprotected := deletion("protected"), deletion("unprotected")
		protected.less = &unprotected
		return protected
	}
	index := "^Query/(own|shared)/selectors=200000/labels=4$"
	ratio := storm("ratio")
	ratio.lower = true
	const crowd = "^Aggregator/pods=100000/protectors="
	all := map[string]figure{
		"protected_over_unprotected":  ratio,
		"reviewed_over_unprotected":   storm("reviewed-ratio"),
		"core_writes_per_admission":   storm("writes/removal"),
		"added_p99_ms":                added("p99"),
		"added_p50_ms":                added("p50"),
		"core_write_p99_ms":           {benchmark: "^UncontendedDelete$", unit: "write-p99-ms"},
		"core_write_p50_ms":           {benchmark: "^UncontendedDelete$", unit: "write-p50-ms"},
		"index_ns_200k":               {benchmark: index, unit: "ns/op"},
		"index_allocs_200k":           {benchmark: index, unit: "allocs/op"},
		"aggregator_mib_100k_pods":    {benchmark: crowd + "1000/start$", unit: "aggregator-MiB-peak"},
		"aggregator_relist_mib_100k":  {benchmark: crowd + "1000/relist$", unit: "relist-MiB-peak"},
		"first_aggregation_s":         {benchmark: crowd + "1000/start$", unit: "first-aggregation-s"},
		"status_kib_10k_reservations": {benchmark: "^StatusOf10000Reservations$", unit: "KiB"},
		"federation_up_s":             {benchmark: "^FederationUp$", unit: "s/op"},
		"rollout_200_ratio":           {benchmark: "^Living/rollout-200$", unit: "ratio"},
		"rollout_200_at_once_ratio":   {benchmark: "^Living/rollout-200-at-once$", unit: "ratio"},
		"webhook_reviews_per_s":       *replicas("1"),
		"replicas_3_over_1":           {benchmark: "^Replicas/replicas=3$", unit: "removals/s", over: replicas("1"), lower: true},

		"terraform_100_apply_s":        {benchmark: "^HundredProtectors$", unit: "apply-s"},
		"terraform_100_plan_s":         {benchmark: "^HundredProtectors$", unit: "plan-s"},
		"terraform_calls_per_resource": {benchmark: "^HundredProtectors$", unit: "plan-calls/resource"},

		"aggregator_mib_10k_protectors": {benchmark: crowd + "10000/start$", unit: "aggregator-MiB-peak"},
		"first_aggregation_10k_s":       {benchmark: crowd + "10000/start$", unit: "first-aggregation-s"},
	}
	maps.Copy(all, webhookFigures())
	maps.Copy(all, loadFigures())
	maps.Copy(all, ringFigures())
	maps.Copy(all, schedulingFigures())
	return all
}

// webhookFigures returns the figures of a webhook with 10,000 protectors: alone, with a core that answers at once, and with a
// real one.
func webhookFigures() map[string]figure {
	const webhook = "^Webhook/core=(stand-in|real)/protectors=10000/start$"
	all := map[string]figure{
		"webhook_mib_10k":     {benchmark: webhook, unit: "webhook-MiB-peak"},
		"webhook_ready_10k_s": {benchmark: webhook, unit: "ready-s"},
	}
	for core, key := range map[string]string{"stand-in": "webhook", "real": "webhook_and_core"} {
		for _, part := range []string{"spread", "one"} {
			from := "^Webhook/core=" + core + "/protectors=10000/" + part + "$"
			all[key+"_"+part+"_per_s_10k"] = figure{benchmark: from, unit: "reviews/s", lower: true}
			all[key+"_"+part+"_p50_ms_10k"] = figure{benchmark: from, unit: "p50-ms"}
			all[key+"_"+part+"_p99_ms_10k"] = figure{benchmark: from, unit: "p99-ms"}
		}
	}
	return all
}

// loadFigures returns the figures of an aggregator whose pods change 500 times a second.
func loadFigures() map[string]figure {
	const load = "^Aggregator/load/pods=100000/protectors=10000/events=500/applications=100$"
	return map[string]figure{
		"aggregator_events_per_s": {benchmark: load, unit: "events/s", lower: true},
		"aggregator_processors":   {benchmark: load, unit: "aggregator-processors"},
	}
}

// ringFigures returns the figures of controller sharding.
func ringFigures() map[string]figure {
	const balance = "^Balance/tokens=1000$"
	throughput := func(of string) *figure {
		return &figure{benchmark: "^Throughput/" + of + "$", unit: "objects/s", lower: true}
	}
	plain := figure{benchmark: "^Assign$", unit: "plain-p99-ms"}
	all := map[string]figure{
		"ring_max_over_mean":  {benchmark: balance, unit: "max/mean-worst"},
		"ring_moved_on_add":   {benchmark: balance, unit: "moved-on-add"},
		"assign_added_p99_ms": {benchmark: "^Assign$", unit: "assigned-p99-ms", less: &plain},
		"shard_reassigned_s":  {benchmark: "^Loss$", unit: "reassigned-s"},
		"shard_added_moved":   {benchmark: "^ScaleUp$", unit: "moved"},
	}
	for n, size := range map[string]string{"1000": "1k", "50000": "50k"} {
		for key, unit := range map[string]string{
			"sharder_mib_": "sharder-MiB-peak", "sharder_whole_ms_": "sharder-ms/whole-look", "sharder_light_ms_": "sharder-ms/light-look",
		} {
			all[key+size] = figure{benchmark: "^Sharder/objects=" + n + "$", unit: unit}
		}
	}
	for _, shards := range []string{"1", "2", "3", "4", "5"} {
		f := *throughput("shards=" + shards)
		f.over = throughput("alone")
		all["sharding_speedup_"+shards] = f
	}
	return all
}

// schedulingFigures returns the figures of pod creation with the additions of scheduling policies.
func schedulingFigures() map[string]figure {
	const alone, storm = "^PodCreate/alone$", "^PodCreate/storm$"
	all := map[string]figure{
		"podcreate_ratio":       {benchmark: storm, unit: "ratio", lower: true},
		"podcreate_asked_ratio": {benchmark: storm, unit: "asked-ratio", lower: true},
	}
	for _, percentile := range []string{"p50", "p99"} {
		withoutPolicies := figure{benchmark: alone, unit: "unasked-" + percentile + "-ms"}
		all["podcreate_added_"+percentile+"_ms"] = figure{benchmark: alone, unit: "scheduled-" + percentile + "-ms", less: &withoutPolicies}
	}
	return all
}

// report computes the figures, and lists those without benchmark results.
func report(results []result) (values map[string]float64, missing []string) {
	values = map[string]float64{}
	for key, f := range figures() {
		value, ok := f.of(results)
		if !ok {
			missing = append(missing, key)
			continue
		}
		values[key] = value
	}
	if kept, ok := values["replicas_3_over_1"]; ok {
		values["replica_conflict_cost"] = 1 - kept
	}
	if speedup, ok := values["sharding_speedup_5"]; ok {
		values["sharding_efficiency_5"] = speedup / 5
	}
	slices.Sort(missing)
	return maps.Clone(values), missing
}

func (f figure) of(results []result) (value float64, ok bool) {
	for _, r := range results {
		one, has := r.figures[f.unit]
		if !has || !regexp.MustCompile(f.benchmark).MatchString(r.name) {
			continue
		}
		if !ok || f.lower && one < value || !f.lower && one > value {
			value, ok = one, true
		}
	}
	if !ok {
		return 0, false
	}
	if f.less != nil {
		other, has := f.less.of(results)
		return value - other, has
	}
	if f.over != nil {
		other, has := f.over.of(results)
		return value / other, has && other > 0
	}
	return value, true
}
