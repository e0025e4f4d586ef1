package provider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// terraform validate rejects what the API server rejects, with the same messages and without a request to any cluster.
func TestValidateReportsAPIMessages(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		configuration, mistakes := "", map[string]*regexp.Regexp{}
		for claim, test := range map[string]struct{ kind, fields, want string }{
			"both floors":               {"pod_protector", `selector = {}, min_available = "1", max_unavailable = "1"`, "give either minAvailable or maxUnavailable"},
			"no floor":                  {"pod_protector", `selector = {}`, "give either minAvailable or maxUnavailable"},
			"no selector":               {"pod_protector", `min_available = "1"`, "give either selector or targetRef"},
			"a floor over the whole":    {"pod_protector", `selector = {}, min_available = "101%"`, "a percentage from 0% to 100%"},
			"a floor below 0":           {"pod_protector", `selector = {}, min_available = "-1"`, "must be a number of pods, from 0"},
			"a floor in words":          {"pod_protector", `selector = {}, min_available = "half"`, "must be a number of pods, from 0"},
			"a floor with zeroes":       {"pod_protector", `selector = {}, min_available = "007"`, "must be a number of pods, from 0"},
			"more pods than are known":  {"pod_protector", `selector = {}, min_available = "2147483648"`, "from 0 to 2147483647"},
			"a criterion that is not":   {"pod_protector", `selector = {}, min_available = "1", criterion = "Alive"`, `supported values: "Available", "Ready", "Running", "Scheduled"`},
			"no operations":             {"pod_protector", `selector = {}, min_available = "1", operations = []`, "should have at least 1 items"},
			"a key that is none":        {"pod_protector", `selector = { match_labels = { "a b" = "c" } }, min_available = "1"`, "matchLabels has a key that is not a label key"},
			"In without values":         {"pod_protector", `selector = { match_expressions = [{ key = "a", operator = "In" }] }, min_available = "1"`, "values must hold at least one value for In and NotIn"},
			"a threshold out of range":  {"pod_protector", `selector = {}, min_available = "1", admission_history = { compact_threshold = 1001 }`, "less than or equal to 1000"},
			"a name in capitals":        {"pod_protector", `selector = {}, min_available = "1", name = "Web"`, "must consist of lower-case letters"},
			"a label that is none":      {"pod_protector", `selector = {}, min_available = "1", labels = { "a b" = "c" }`, "name part must consist of alphanumeric"},
			"two sources of a floor":    {"protection_policy", `floor = { from_strategy = {}, min_available = "1" }`, "give one of fromStrategy, minAvailable, maxUnavailable and bands"},
			"bands that do not rise":    {"protection_policy", `floor = { bands = [{ up_to_replicas = 3, min_available = "1" }, { up_to_replicas = 2, min_available = "1" }, { min_available = "1" }] }`, "upToReplicas must rise from band to band"},
			"a kind twice":              {"cluster_protection_policy", `workloads = { kinds = [{ api_version = "apps/v1", kind = "Deployment" }, { api_version = "apps/v1", kind = "Deployment" }] }`, "each kind of a group may be named once"},
			"both parts of a cluster":   {"cell", `namespaces = ["a"], pod_selector = {}`, "namespaces and podSelector exclude each other"},
			"a deadline out of range":   {"cell", `admission_deadline = "1s"`, "admissionDeadline must be from 5s to 1h"},
			"a deadline in words":       {"cell", `stale_after = "1d"`, "spec.staleAfter in body should match"},
			"a name that is too long":   {"cell", `name = "a123456789-123456789-123456789-123456789-123456789-123456789-123"`, "the name of a Cell has at most 63 characters"},
			"a resource in both lists":  {"cluster_ring", `resources = [{ group = "apps", resource = "deployments", controlled_resources = [{ resource = "pods" }] }, { resource = "pods" }]`, "a resource is either one of resources or of controlledResources, not both"},
			"a resource twice":          {"cluster_ring", `resources = [{ resource = "pods" }, { group = "", resource = "pods" }]`, `Duplicate value: {"group":"","resource":"pods"}`},
			"controlled twice":          {"cluster_ring", `resources = [{ resource = "pods", controlled_resources = [{ resource = "secrets" }, { resource = "secrets" }] }]`, `Duplicate value: {"group":"","resource":"secrets"}`},
			"leases":                    {"cluster_ring", `resources = [{ group = "coordination.k8s.io", resource = "leases" }]`, "leases, events, clusterrings and admission configurations cannot be sharded"},
			"controlled leases":         {"cluster_ring", `resources = [{ resource = "pods", controlled_resources = [{ group = "coordination.k8s.io", resource = "leases" }] }]`, "leases and events cannot be sharded"},
			"all resources":             {"cluster_ring", `resources = [{ group = "apps", resource = "*" }]`, "spec.resources[0].resource in body should match"},
			"a resource without a name": {"cluster_ring", `resources = [{ group = "apps" }]`, `attribute "resource" is required`},
			"a load below the mean":     {"cluster_ring", `max_load_percent = 100`, "greater than or equal to 101"},
			"too long for a label":      {"cluster_ring", `name = "a123456789-123456789-123456789-123456789-123456789-1234567"`, "the name of a ClusterRing has at most 57 characters"},
			"a name with a dot":         {"cluster_ring", `name = "a.b"`, "lower case letters, digits and hyphens"},
			"nothing to add":            {"pod_scheduling_policy", `pod_selector = {}`, "give at least one of affinity, nodeName, nodeSelector"},
			"a node and its labels":     {"pod_scheduling_policy", `pod_selector = {}, node_name = "node-1", node_selector = { pool = "web" }`, "nodeName bypasses the scheduler"},
			"updates of no templates":   {"pod_scheduling_policy", `pod_selector = {}, scheduler_name = "batch", template_updates = "Inject"`, "templateUpdates: Inject needs PodTemplates among targets"},
			"a toleration twice":        {"cluster_pod_scheduling_policy", `namespace_selector = {}, pod_selector = {}, tolerations = [{ key = "a" }, { key = "a", operator = "Equal" }]`, "two tolerations have the same key, operator, value and effect"},
			"a constraint twice":        {"pod_scheduling_policy", `pod_selector = {}, topology_spread_constraints = [{ max_skew = 1, topology_key = "zone", when_unsatisfiable = "DoNotSchedule" }, { max_skew = 2, topology_key = "zone", when_unsatisfiable = "DoNotSchedule" }]`, `Duplicate value: {"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}`},
			"an affinity of nothing":    {"cluster_pod_scheduling_policy", `namespace_selector = {}, pod_selector = {}, affinity = {}`, "give at least one of nodeAffinity, podAffinity and podAntiAffinity"},
			"a number in words":         {"pod_scheduling_policy", `pod_selector = {}, affinity = { node_affinity = { required_during_scheduling_ignored_during_execution = { node_selector_terms = [{ match_expressions = [{ key = "cpus", operator = "Gt", values = ["many"] }] }] } } }`, "values must hold one whole number of at most 18 digits for Gt and Lt"},
			"a weight of 0":             {"pod_scheduling_policy", `pod_selector = {}, affinity = { pod_affinity = { preferred_during_scheduling_ignored_during_execution = [{ weight = 0, pod_affinity_term = { topology_key = "zone" } }] } }`, "weight in body should be greater than or equal to 1"},
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
