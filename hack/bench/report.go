package main

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
)

// figure defines a figure: the median over the rounds of a benchmark, in that unit. Of several benchmarks whose name matches, it is that of
// the worst.
type figure struct {
	benchmark, unit string
	// less is subtracted, and over is the divisor, each in the same round. Both are other figures.
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

		"aggregator_mib_1k_protectors":  {benchmark: crowd + "1000/start$", unit: "aggregator-MiB-peak"},
		"aggregator_mib_10k_protectors": {benchmark: crowd + "10000/start$", unit: "aggregator-MiB-peak"},
		"first_aggregation_10k_s":       {benchmark: crowd + "10000/start$", unit: "first-aggregation-s"},
	}
	maps.Copy(all, goalFigures())
	maps.Copy(all, terraformFigures())
	maps.Copy(all, webhookFigures())
	maps.Copy(all, loadFigures())
	maps.Copy(all, ringFigures())
	maps.Copy(all, schedulingFigures())
	return all
}

// goalFigures returns the figures that have goals: see goals.
func goalFigures() map[string]figure {
	const crowd = "^Aggregator/pods=100000/protectors=10000/start$"
	all := map[string]figure{
		"steady_ratio":               {benchmark: "^Storm$", unit: "protected-over-reviewed", lower: true},
		"cold_ratio":                 {benchmark: "^ColdStorm$", unit: "protected-over-reviewed", lower: true},
		"cpu_ms_over_answering":      {benchmark: "^Storm$", unit: "cpu-ms-over-reviewed"},
		"many_ratio":                 {benchmark: "^WideStorm$", unit: "times-reviewed"},
		"uncontended_p99_over_write": {benchmark: "^UncontendedDelete$", unit: "added-p99-over-write"},
		"refused_ratio":              {benchmark: "^Refusals$", unit: "refused-over-reviewed", lower: true},
		"refused_webhook_cpu_ms":     {benchmark: "^Refusals$", unit: "refused-webhook-ms/removal"},
		"answering_webhook_cpu_ms":   {benchmark: "^Refusals$", unit: "reviewed-webhook-ms/removal"},
		"wan_50ms_p50_over_rtt":      {benchmark: "^FarCore$", unit: "50ms-p50-over-rtt"},
		"wan_100ms_p50_over_rtt":     {benchmark: "^FarCore$", unit: "100ms-p50-over-rtt"},
		"wan_50ms_storm_over_0ms":    {benchmark: "^FarCore$", unit: "50ms-storm-over-0ms", lower: true},
		"aggregator_mib_100k_pods":   {benchmark: crowd, unit: "aggregator-MiB-peak"},
		"aggregator_write_all_s":     {benchmark: crowd, unit: "first-aggregation-s"},
		"spread_reviews_per_s":       {benchmark: "^Webhook/core=real/protectors=10000/spread$", unit: "reviews/s", lower: true},
		"soak_growth_pct":            {benchmark: "^Soak$", unit: "memory-growth-pct"},
		"soak_goroutines_growth_pct": {benchmark: "^Soak$", unit: "goroutines-growth-pct"},
		"soak_etcd_growth_pct":       {benchmark: "^Soak$", unit: "etcd-growth-pct"},
		"soak_p99_growth_pct":        {benchmark: "^Soak$", unit: "p99-growth-pct"},
	}
	for _, reservations := range []int{0, 20, 100} {
		all[fmt.Sprintf("status_write_cpu_ms_%d", reservations)] = figure{
			benchmark: fmt.Sprintf("^StatusWrite/as=stored/reservations=%d$", reservations), unit: "apiserver-ms/op",
		}
	}
	return all
}

// terraformFigures returns the figures of 1,000 protectors in a Terraform configuration.
func terraformFigures() map[string]figure {
	const remote, local = "^ThousandProtectors/state=remote$", "^ThousandProtectors/state=local$"
	return map[string]figure{
		"terraform_plan_cpu_s_1000":                         {benchmark: remote, unit: "plan-cpu-s"},
		"terraform_plan_provider_cpu_s_1000":                {benchmark: remote, unit: "plan-provider-cpu-s"},
		"terraform_apply_cpu_ms_per_resource":               {benchmark: remote, unit: "apply-cpu-ms/resource"},
		"terraform_destroy_cpu_ms_per_resource":             {benchmark: remote, unit: "destroy-cpu-ms/resource"},
		"terraform_apply_provider_cpu_ms_per_resource":      {benchmark: remote, unit: "apply-provider-cpu-ms/resource"},
		"terraform_destroy_provider_cpu_ms_per_resource":    {benchmark: remote, unit: "destroy-provider-cpu-ms/resource"},
		"terraform_local_state_apply_cpu_ms_per_resource":   {benchmark: local, unit: "apply-cpu-ms/resource"},
		"terraform_local_state_destroy_cpu_ms_per_resource": {benchmark: local, unit: "destroy-cpu-ms/resource"},
		"terraform_peak_mib_1000":                           {benchmark: "^ThousandProtectors/", unit: "peak-MiB"},
	}
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
		rounds := f.rounds(results)
		if len(rounds) == 0 {
			missing = append(missing, key)
			continue
		}
		values[key] = median(rounds)
	}
	if kept, ok := values["replicas_3_over_1"]; ok {
		values["replica_conflict_cost"] = 1 - kept
	}
	if speedup, ok := values["sharding_speedup_5"]; ok {
		values["sharding_efficiency_5"] = speedup / 5
	}
	slices.Sort(missing)
	return values, missing
}

// rounds returns the figure of each round, of the benchmark with the worst median. It is empty without results.
func (f figure) rounds(results []result) (worst []float64) {
	name, each := regexp.MustCompile(f.benchmark), map[string][]float64{}
	for _, r := range results {
		if value, has := r.figures[f.unit]; has && name.MatchString(r.name) {
			each[r.name] = append(each[r.name], value)
		}
	}
	for _, rounds := range each {
		if worst == nil || f.lower && median(rounds) < median(worst) || !f.lower && median(rounds) > median(worst) {
			worst = rounds
		}
	}
	if f.less != nil {
		worst = combine(worst, f.less.rounds(results), func(a, b float64) float64 { return a - b })
	}
	if f.over != nil {
		worst = combine(worst, f.over.rounds(results), func(a, b float64) float64 { return a / b })
	}
	return slices.DeleteFunc(worst, func(value float64) bool { return math.IsInf(value, 0) || math.IsNaN(value) })
}

// combine combines the two sides of each round, up to the last round that has both.
func combine(a, b []float64, of func(a, b float64) float64) (all []float64) {
	for i := range min(len(a), len(b)) {
		all = append(all, of(a[i], b[i]))
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
