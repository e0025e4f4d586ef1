package provider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// terraform validate rejects what the API server rejects, without a request to any cluster. Its messages have the names of attributes.
func TestValidateRejectsMistakes(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		configuration, mistakes := "", map[string]*regexp.Regexp{}
		for claim, test := range map[string]struct{ kind, fields, want string }{
			"both floors":               {"pod_protector", `selector = { match_labels = {} }, min_available = "1", max_unavailable = "1"`, "give either min_available or max_unavailable"},
			"no floor":                  {"pod_protector", `selector = { match_labels = {} }`, "give either min_available or max_unavailable"},
			"no selector":               {"pod_protector", `min_available = "1"`, "give either selector or target_ref"},
			"a floor over the whole":    {"pod_protector", `selector = { match_labels = {} }, min_available = "101%"`, "a percentage from 0% to 100%"},
			"a floor below 0":           {"pod_protector", `selector = { match_labels = {} }, min_available = "-1"`, "must be a number of pods, from 0"},
			"a floor in words":          {"pod_protector", `selector = { match_labels = {} }, min_available = "half"`, "must be a number of pods, from 0"},
			"a floor with zeroes":       {"pod_protector", `selector = { match_labels = {} }, min_available = "007"`, "min_available: must be a number of pods, from 0"},
			"more pods than are known":  {"pod_protector", `selector = { match_labels = {} }, min_available = "2147483648"`, "from 0 to 2147483647"},
			"a criterion that is not":   {"pod_protector", `selector = { match_labels = {} }, min_available = "1", criterion = "Alive"`, `must be one of "Available", "Ready", "Running", "Scheduled"`},
			"no operations":             {"pod_protector", `selector = { match_labels = {} }, min_available = "1", operations = []`, "operations: must have at least 1 element(s)"},
			"a key that is none":        {"pod_protector", `selector = { match_labels = { "a b" = "c" } }, min_available = "1"`, "selector.match_labels: match_labels has a key that is not a label key"},
			"In without values":         {"pod_protector", `selector = { match_expressions = [{ key = "a", operator = "In" }] }, min_available = "1"`, "values must hold at least one value for In and NotIn"},
			"a threshold out of range":  {"pod_protector", `selector = { match_labels = {} }, min_available = "1", admission_history = { compact_threshold = 1001 }`, "admission_history.compact_threshold: must be at most 1000"},
			"a name in capitals":        {"pod_protector", `selector = { match_labels = {} }, min_available = "1", name = "Web"`, "must consist of lower-case letters"},
			"a label that is none":      {"pod_protector", `selector = { match_labels = {} }, min_available = "1", labels = { "a b" = "c" }`, "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc')."},
			"two sources of a floor":    {"protection_policy", `floor = { from_strategy = {}, min_available = "1" }`, "give one of from_strategy, min_available, max_unavailable and bands"},
			"bands that do not rise":    {"protection_policy", `floor = { bands = [{ up_to_replicas = 3, min_available = "1" }, { up_to_replicas = 2, min_available = "1" }, { min_available = "1" }] }`, "floor.bands: up_to_replicas must rise from band to band"},
			"a kind twice":              {"cluster_protection_policy", `workloads = { kinds = [{ api_version = "apps/v1", kind = "Deployment" }, { api_version = "apps/v1", kind = "Deployment" }] }`, "each kind of a group may be named once"},
			"both parts of a cluster":   {"cell", `namespaces = ["a"], pod_selector = { match_labels = {} }`, "Namespaces and pod_selector exclude each other"},
			"a deadline out of range":   {"cell", `admission_deadline = "1s"`, "admission_deadline must be from 5s to 1h"},
			"a deadline in words":       {"cell", `stale_after = "1d"`, "stale_after: must be a duration, such as 90s or 1h30m."},
			"a name that is too long":   {"cell", `name = "a123456789-123456789-123456789-123456789-123456789-123456789-123"`, "The name of a Cell has at most 63 characters"},
			"a resource in both lists":  {"cluster_ring", `resources = [{ group = "apps", resource = "deployments", controlled_resources = [{ resource = "pods" }] }, { resource = "pods" }]`, "a resource is either one of resources or of controlled_resources, not both"},
			"a resource twice":          {"cluster_ring", `resources = [{ resource = "pods" }, { group = "", resource = "pods" }]`, `the same value is there twice`},
			"controlled twice":          {"cluster_ring", `resources = [{ resource = "pods", controlled_resources = [{ resource = "secrets" }, { resource = "secrets" }] }]`, `the same value is there twice`},
			"leases":                    {"cluster_ring", `resources = [{ group = "coordination.k8s.io", resource = "leases" }]`, "leases, events, clusterrings and admission configurations cannot be sharded"},
			"controlled leases":         {"cluster_ring", `resources = [{ resource = "pods", controlled_resources = [{ group = "coordination.k8s.io", resource = "leases" }] }]`, "leases, events, clusterrings and admission configurations cannot be sharded"},
			"all resources":             {"cluster_ring", `resources = [{ group = "apps", resource = "*" }]`, "resources[0].resource: must be a name: it may consist of lower-case letters, digits and '-', and begin and end with a letter or digit."},
			"a resource without a name": {"cluster_ring", `resources = [{ group = "apps" }]`, `attribute "resource" is required`},
			"a load below the mean":     {"cluster_ring", `max_load_percent = 100`, "max_load_percent: must be at least 101."},
			"too long for a label":      {"cluster_ring", `name = "a123456789-123456789-123456789-123456789-123456789-1234567"`, "The name of a ClusterRing has at most 57 characters"},
			"a name with a dot":         {"cluster_ring", `name = "a.b"`, "lower case letters, digits and hyphens"},
			"nothing to add":            {"pod_scheduling_policy", `pod_selector = { match_labels = {} }`, "Give at least one of affinity, node_name, node_selector"},
			"a node and its labels":     {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, node_name = "node-1", node_selector = { pool = "web" }`, "node_name bypasses the scheduler"},
			"updates of no templates":   {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, scheduler_name = "batch", template_updates = "Inject"`, "template_updates: Inject needs PodTemplates among targets"},
			"a toleration twice":        {"cluster_pod_scheduling_policy", `namespace_selector = { match_labels = {} }, pod_selector = { match_labels = {} }, tolerations = [{ key = "a" }, { key = "a", operator = "Equal" }]`, "two tolerations have the same key, operator, value and effect"},
			"a constraint twice":        {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, topology_spread_constraints = [{ max_skew = 1, topology_key = "zone", when_unsatisfiable = "DoNotSchedule" }, { max_skew = 2, topology_key = "zone", when_unsatisfiable = "DoNotSchedule" }]`, `topology_spread_constraints[1]: the same value is there twice`},
			"an affinity of nothing":    {"cluster_pod_scheduling_policy", `namespace_selector = { match_labels = {} }, pod_selector = { match_labels = {} }, affinity = {}`, "affinity sets none of its attributes"},
			"a number in words":         {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, affinity = { node_affinity = { required_during_scheduling_ignored_during_execution = { node_selector_terms = [{ match_expressions = [{ key = "cpus", operator = "Gt", values = ["many"] }] }] } } }`, "values must hold one whole number of at most 18 digits for Gt and Lt"},
			"a weight of 0":             {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, affinity = { pod_affinity = { preferred_during_scheduling_ignored_during_execution = [{ weight = 0, pod_affinity_term = { topology_key = "zone" } }] } }`, "affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution[0].weight: must be at least 1."},
			// Names of YAML in nested objects. Terraform drops them without an error.
			"YAML selector":             {"pod_protector", `selector = { matchLabels = { app = "web" } }, min_available = "1"`, "selector sets none of its attributes. Terraform ignores names in it that do not exist, such as those of YAML. It has match_expressions, match_labels. To select everything, write { match_labels = {} }."},
			"YAML expressions":          {"pod_protector", `selector = { matchExpressions = [{ key = "a", operator = "Exists" }] }, min_available = "1"`, "selector sets none of its attributes"},
			"an empty selector":         {"pod_protector", `selector = {}, min_available = "1"`, "selector sets none of its attributes"},
			"YAML exemption":            {"pod_protector", `selector = { match_labels = {} }, min_available = "1", exempt_pod_selector = { matchLabels = { app = "web" } }`, "exempt_pod_selector sets none of its attributes"},
			"YAML aggregation":          {"pod_protector", `selector = { match_labels = {} }, min_available = "1", aggregation_selector = { matchLabels = { app = "web" } }`, "aggregation_selector sets none of its attributes"},
			"YAML history":              {"pod_protector", `selector = { match_labels = {} }, min_available = "1", admission_history = { compactThreshold = 3 }`, "admission_history sets none of its attributes. Terraform ignores names in it that do not exist, such as those of YAML. It has aggregation_rate_millis, compact_threshold, max_concurrent_lag, update_timeout_seconds. Set one of them, or leave it out."},
			"YAML spread":               {"pod_protector", `selector = { match_labels = {} }, min_available = "1", spread = { topologyKey = "zone" }`, `attribute "topology_key" is required`},
			"YAML target":               {"pod_protector", `target_ref = { apiVersion = "apps/v1", kind = "Deployment", name = "web" }, min_available = "1"`, `attribute "api_version" is required`},
			"YAML floor":                {"protection_policy", `floor = { minAvailable = "1" }`, "floor sets none of its attributes"},
			"YAML strategy":             {"protection_policy", `floor = { fromStrategy = {} }`, "floor sets none of its attributes"},
			"YAML band":                 {"protection_policy", `floor = { bands = [{ upToReplicas = 3, minAvailable = "1" }, { min_available = "1" }] }`, "floor.bands[0] sets none of its attributes"},
			"YAML decreases":            {"protection_policy", `large_decreases = { quietPeriod = "1s" }`, "large_decreases sets none of its attributes"},
			"YAML workloads":            {"protection_policy", `workloads = { selector = { matchLabels = { app = "web" } } }`, "workloads.selector sets none of its attributes"},
			"YAML namespaces":           {"cluster_protection_policy", `namespace_selector = { matchLabels = { team = "shop" } }`, "namespace_selector sets none of its attributes"},
			"YAML cell":                 {"cell", `pod_selector = { matchLabels = { app = "web" } }`, "pod_selector sets none of its attributes"},
			"YAML ring":                 {"cluster_ring", `namespace_selector = { matchLabels = { team = "shop" } }`, "namespace_selector sets none of its attributes"},
			"YAML toleration":           {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, tolerations = [{ tolerationSeconds = 3 }]`, "tolerations[0] sets none of its attributes"},
			"YAML key":                  {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, tolerations = [{ Key = "a", effect = "NoSchedule" }]`, "a toleration without a key matches all taints: set operator Exists, or a key"},
			"YAML constraint":           {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, topology_spread_constraints = [{ maxSkew = 1, topologyKey = "zone" }]`, "are required"},
			"YAML constraint selector":  {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, topology_spread_constraints = [{ max_skew = 1, topology_key = "zone", when_unsatisfiable = "DoNotSchedule", label_selector = { matchLabels = { app = "web" } } }]`, "topology_spread_constraints[0].label_selector sets none of its attributes"},
			"YAML affinity":             {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, affinity = { nodeAffinity = { a = "b" } }`, "affinity sets none of its attributes"},
			"YAML terms":                {"pod_scheduling_policy", `pod_selector = { match_labels = {} }, affinity = { node_affinity = { required_during_scheduling_ignored_during_execution = { node_selector_terms = [{ matchExpressions = [] }] } } }`, "affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms[0] sets none of its attributes"},
			"YAML pod affinity":         {"cluster_pod_scheduling_policy", `namespace_selector = { match_labels = {} }, pod_selector = { match_labels = {} }, affinity = { pod_affinity = { required_during_scheduling_ignored_during_execution = [{ topology_key = "zone", label_selector = { matchLabels = { app = "web" } } }] } }`, "affinity.pod_affinity.required_during_scheduling_ignored_during_execution[0].label_selector sets none of its attributes"},
			"a kubeconfig that is none": {"cell", `kubeconfig_wo = "secret", kubeconfig_secret_ref = { namespace = "a", name = "b" }`, "It must be the text of a kubeconfig"},
			"a kubeconfig for nowhere":  {"cell", `kubeconfig_wo = "secret"`, `Attribute "kubeconfig_secret_ref" must be specified`},
		} {
			mistakes[strings.ReplaceAll(claim, " ", "_")] = matchWrapped(test.want)
			configuration += written(t, test.kind, strings.ReplaceAll(claim, " ", "_"), test.fields)
		}
		out, err := workingDir(t, configuration).Try("validate")
		if err == nil {
			t.Fatalf("all of it is valid:\n%s", out)
		}
		said := strings.Split(out, "\nError: ")
		for _, no := range []string{" in body ", "regex", "should match"} {
			if strings.Contains(out, no) {
				t.Errorf("messages contain %q", no)
			}
		}
		for claim, words := range mistakes {
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, `"`+claim+`"`) && words.MatchString(s) }) {
				t.Errorf("%s: error lacks %s", claim, words)
			}
		}
		if t.Failed() {
			t.Log(out)
		}
	})
}

// written returns a resource as HCL, from fields that commas separate. It adds a name if the fields have none.
func written(t *testing.T, kind, name, fields string) string {
	t.Helper()
	text := regexp.MustCompile(`, ([a-z_]+ =)`).ReplaceAllString(fields, "\n  $1")
	text = regexp.MustCompile(`\{[^{}]*\n[^{}]*\}`).ReplaceAllStringFunc(text, func(s string) string {
		return regexp.MustCompile(`\n  `).ReplaceAllString(s, ", ")
	})
	if !regexp.MustCompile(`(?m)^ *name =`).MatchString(text) {
		text = "name = \"it\"\n  " + text
	}
	if definitions(t)[kind].Namespaced {
		text = "namespace = \"shop\"\n  " + text
	}
	return "resource \"breakwater_" + kind + "\" \"" + name + "\" {\n  " + text + "\n}\n"
}
