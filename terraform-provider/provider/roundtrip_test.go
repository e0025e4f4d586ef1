package provider_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

const selectors = `{
    match_labels      = { app = "web", "example.com/tier" = "" }
    match_expressions = [
      { key = "a", operator = "In", values = ["1", "2"] },
      { key = "b", operator = "NotIn", values = ["3"] },
      { key = "c", operator = "Exists" },
      { key = "d", operator = "DoesNotExist" },
    ]
  }`

const history = `{
    max_concurrent_lag      = 7
    compact_threshold       = 11
    update_timeout_seconds  = 300
    aggregation_rate_millis = 250
  }`

const spread = `{
    topology_key         = "topology.kubernetes.io/zone"
    max_share_percent    = 40
    min_domains          = 3
    enforcement          = "Schedule"
    tolerate_domain_loss = true
  }`

const behavior = `
  labels              = { team = "shop" }
  annotations         = { "example.com/note" = "by Terraform" }
  deletion_protection = false
  force_conflicts     = true
  timeouts {
    create = "1m"
    update = "1m"
    delete = "1m"
  }`

// rule sets every field that a policy has for protectors.
const rule = `
  min_ready_seconds     = 3
  criterion             = "Running"
  operations            = ["Delete", "Evict", "Update", "Resize"]
  exempt_pod_selector   = ` + selectors + `
  spread                = ` + spread + `
  admission_history     = ` + history + `
  core_outage           = "LocalShare"
  large_decreases       = { count = 7, percent = 10, window = "1m30s", quiet_period = "2s", on_cascade = "Release" }
  target_removal_policy = "Release"
  priority              = -5
  workloads = {
    kinds = [
      { api_version = "apps/v1", kind = "Deployment" },
      { api_version = "core.example.com/v1", kind = "Federated", template_path = "spec.template" },
    ]
    selector = ` + selectors + `
  }` + behavior

// criteria sets every field that a policy can add to pods, except nodeName, which can be combined only with tolerations.
const criteria = `
  pod_selector       = ` + selectors + `
  protector_selector = ` + selectors + `
  priority           = -7
  targets            = ["PodTemplates", "Pods"]
  template_updates   = "Inject"
  conflict_policy    = "Reject"
  scheduler_name     = "batch"
  node_selector      = { "example.com/pool" = "web", spot = "" }
  affinity = {
    node_affinity = {
      required_during_scheduling_ignored_during_execution = {
        node_selector_terms = [
          { match_expressions = [{ key = "cpus", operator = "Gt", values = ["8"] }, { key = "gpu", operator = "DoesNotExist" }] },
          { match_fields = [{ key = "metadata.name", operator = "In", values = ["node-1"] }] },
        ]
      }
      preferred_during_scheduling_ignored_during_execution = [{
        weight = 100
        preference = {
          match_expressions = [{ key = "pool", operator = "In", values = ["a", "b"] }]
          match_fields      = [{ key = "metadata.name", operator = "NotIn", values = ["node-2"] }]
        }
      }]
    }
    pod_affinity      = ` + podAffinity + `
    pod_anti_affinity = ` + podAffinity + `
  }
  tolerations = [
    { key = "pool", operator = "Equal", value = "web", effect = "NoExecute", toleration_seconds = 0 },
    { operator = "Exists" },
  ]
  topology_spread_constraints = [
    {
      max_skew             = 2
      topology_key         = "topology.kubernetes.io/zone"
      when_unsatisfiable   = "DoNotSchedule"
      min_domains          = 3
      node_affinity_policy = "Ignore"
      node_taints_policy   = "Honor"
      match_label_keys     = ["pod-template-hash"]
      label_selector       = ` + selectors + `
    },
    { max_skew = 1, topology_key = "kubernetes.io/hostname", when_unsatisfiable = "ScheduleAnyway" },
  ]` + behavior

const podAffinity = `{
      required_during_scheduling_ignored_during_execution  = [` + podTerm + `, { topology_key = "zone", label_selector = { match_labels = {} }, namespace_selector = { match_labels = {} } }]
      preferred_during_scheduling_ignored_during_execution = [{ weight = 1, pod_affinity_term = ` + podTerm + ` }]
    }`

const podTerm = `{
  topology_key        = "kubernetes.io/hostname"
  label_selector      = ` + selectors + `
  namespaces          = ["shop", "pay"]
  namespace_selector  = ` + selectors + `
  match_label_keys    = ["pod-template-hash"]
  mismatch_label_keys = ["tenant"]
}`

// everyField returns configurations that together set every field of every resource. The configurations "as little" set only the
// required ones. Each is combined with the identity of an object.
func everyField() map[string]string {
	return map[string]string{
		"pod_protector/selector": `
  selector              = ` + selectors + `
  aggregation_selector  = ` + selectors + `
  exempt_pod_selector   = ` + selectors + `
  min_available         = "70%"
  expected_replicas     = 100
  target_removal_policy = "Release"
  min_ready_seconds     = 10
  criterion             = "Ready"
  core_outage           = "LocalShare"
  operations            = ["Resize", "Delete"]
  spread                = ` + spread + `
  admission_history     = ` + history + behavior,
		"pod_protector/target":               "target_ref = { api_version = \"apps/v1\", kind = \"Deployment\", name = \"web\" }\n max_unavailable = \"3\"\n spread = { topology_key = \"breakwater.dev/cell\" }" + behavior,
		"protection_policy/strategy":         "floor = { from_strategy = {} }" + rule,
		"protection_policy/missing":          "floor = { max_unavailable = \"1\" }" + behavior,
		"protection_policy/bands":            "floor = { bands = [{ up_to_replicas = 3, min_available = \"1\" }, { max_unavailable = \"10%\" }] }" + behavior,
		"cluster_protection_policy/strategy": "floor = { from_strategy = {} }" + behavior,
		"cluster_protection_policy/floor":    "floor = { min_available = \"0%\" }" + behavior,
		"protection_policy/share":            "floor = { min_available = \"12\" }" + behavior,
		"cluster_protection_policy/bands":    "namespace_selector = " + selectors + "\n floor = { bands = [{ up_to_replicas = 3, min_available = \"1\" }, { max_unavailable = \"10%\" }] }" + rule,
		"cluster_protection_policy/share":    "floor = { max_unavailable = \"100%\" }" + behavior,
		"cell/namespaces":                    "kubeconfig_secret_ref = { namespace = \"default\", name = \"worker\", key = \"value\", allow_insecure = true, allow_proxy = true }\n namespaces = [\"shop\", \"pay\"]\n settlement = \"Clock\"\n admission_deadline = \"1m30s\"\n stale_after = \"0.5h\"\n when_stale = \"Discount\"" + behavior,
		"cell/pods":                          "pod_selector = " + selectors + behavior,
		"cluster_ring/objects": `
  resources = [
    { group = "apps", resource = "deployments", controlled_resources = [{ group = "apps", resource = "replicasets" }, { resource = "pods" }] },
    { resource = "configmaps" },
    { group = "", resource = "secrets", controlled_resources = [{ group = "", resource = "endpoints" }] },
  ]
  namespace_selector = ` + selectors + `
  shard_namespace        = "shop"
  key_policy             = "Object"
  tokens_per_shard       = 10000
  max_load_percent       = 110
  lease_duration_seconds = 2
  drain_timeout_seconds  = 86400
  resync_period_seconds  = 10
  max_concurrent_moves   = 1` + behavior,
		"cluster_ring/namespaces":                 "key_policy = \"Namespace\"\n namespace_selector = { match_labels = {} }\n resources = [{ group = \"example.com\", resource = \"databases\" }]" + behavior,
		"pod_scheduling_policy/scheduled":         criteria,
		"pod_scheduling_policy/node":              "pod_selector = { match_labels = {} }\n node_name = \"node-1\"\n tolerations = [{ operator = \"Exists\" }]" + behavior,
		"pod_scheduling_policy/as little":         "protector_selector = { match_labels = {} }\n scheduler_name = \"batch\"",
		"cluster_pod_scheduling_policy/scheduled": "namespace_selector = " + selectors + criteria,
		"cluster_pod_scheduling_policy/node":      "namespace_selector = { match_labels = {} }\n pod_selector = { match_labels = {} }\n node_name = \"node-1\"" + behavior,
		"cluster_pod_scheduling_policy/as little": "scheduler_name = \"batch\"",
		"cluster_pod_scheduling_policy/empty": `
  namespace_selector = { match_labels = {}, match_expressions = [] }
  pod_selector       = { match_labels = {} }
  affinity = { pod_anti_affinity = { required_during_scheduling_ignored_during_execution = [{
    topology_key   = "zone", namespaces = [], mismatch_label_keys = [], namespace_selector = { match_labels = {} }
    label_selector = { match_labels = {}, match_expressions = [] }
  }] } }
  topology_spread_constraints = [{ max_skew = 1, topology_key = "zone", when_unsatisfiable = "DoNotSchedule", match_label_keys = []
    label_selector = { match_labels = {}, match_expressions = [] }
  }]`,
		"cluster_ring/as little":           "",
		"cluster_ring/empty":               "resources = []\n namespace_selector = { match_labels = {}, match_expressions = [] }\n labels = {}\n annotations = {}",
		"pod_protector/as little":          "selector = { match_labels = {} }\n min_available = \"0\"\n deletion_protection = false",
		"protection_policy/as little":      "",
		"cluster_protection_policy/little": "",
		"cell/as little":                   "",
		"cell/empty":                       "pod_selector = { match_labels = {} }\n labels = {}\n annotations = {}",
		"protection_policy/empty":          "workloads = { kinds = [{ api_version = \"apps/v1\", kind = \"Deployment\" }] }\n exempt_pod_selector = { match_labels = {}, match_expressions = [] }",
	}
}

func TestEveryFieldRoundTrips(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		made, forgotten, imported := configured(t, ""), configured(t, ""), configured(t, "")
		for name, fields := range everyField() {
			kind, what, _ := strings.Cut(name, "/")
			what = strings.ReplaceAll(what, " ", "-")
			id, identity := namespace+"-"+what, fmt.Sprintf("name = %q", namespace+"-"+what)
			if definitions(t)[kind].Namespaced {
				id, identity = namespace+"/"+what, fmt.Sprintf("namespace = %q\n  name = %q", namespace, what)
			}
			at := "breakwater_" + kind + "." + what
			resource := fmt.Sprintf("resource \"breakwater_%s\" %q {\n  %s\n  %s\n}\n", kind, what, identity, fields)
			made += resource
			forgotten += fmt.Sprintf("removed {\n  from = %s\n  lifecycle {\n    destroy = false\n  }\n}\n", at)
			imported += resource + fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", at, id)
		}
		was := remembered{}
		steps(t,
			resource.TestStep{
				Config: made, ConfigStateChecks: []statecheck.StateCheck{was}, Check: setsEveryField(t),
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PostApplyPreRefresh:  []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
					PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
				},
			},
			resource.TestStep{Config: forgotten},
			resource.TestStep{Config: imported, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{importedAs(was)}}},
		)
	})
}

// setsEveryField checks that some test sets every field of each definition.
func setsEveryField(t *testing.T) resource.TestCheckFunc {
	t.Helper()
	return func(s *terraform.State) error {
		seen := map[string]bool{}
		for at, made := range s.RootModule().Resources {
			kind, _, _ := strings.Cut(strings.TrimPrefix(at, "breakwater_"), ".")
			for key := range made.Primary.Attributes {
				seen[kind+"."+withoutIndices(key)] = true
			}
		}
		for _, want := range specFields(t) {
			if !seen[want] {
				t.Errorf("no test sets %s", want)
			}
		}
		return nil
	}
}

// withoutIndices removes the counts and indices from a key of a flat state: match_expressions.0.key becomes
// match_expressions.key.
func withoutIndices(key string) string {
	return indices.ReplaceAllString(key, "")
}

var indices = regexp.MustCompile(`\.([0-9]+|[#%])(\b|$)`)

// specFields returns the leaf attributes of all kinds, according to their definitions, without those that only Breakwater sets.
func specFields(t *testing.T) []string {
	t.Helper()
	var all []string
	for kind, d := range definitions(t) {
		all = append(all, leaves(kind, d.Spec)...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "pod_protector.share_of.") })
}

func leaves(at string, f *shape.Field) []string {
	switch {
	case f.Kind == shape.Object && len(f.Fields) > 0:
		var all []string
		for _, c := range f.Fields {
			all = append(all, leaves(at+"."+c.Name, c)...)
		}
		return all
	case f.Kind == shape.List:
		return leaves(at, f.Element)
	default:
		return []string{at}
	}
}
