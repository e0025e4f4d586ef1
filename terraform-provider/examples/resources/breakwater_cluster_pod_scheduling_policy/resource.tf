# In all production namespaces, pods that a protector covers are spread over the zones as evenly as nodes allow, per
# protector. If a pod has such a constraint itself, it stays.
resource "breakwater_cluster_pod_scheduling_policy" "spread" {
  name               = "spread"
  namespace_selector = { match_labels = { environment = "production" } }
  protector_selector = { match_labels = {} }
  priority           = -100

  topology_spread_constraints = [{
    max_skew           = 1
    topology_key       = "topology.kubernetes.io/zone"
    when_unsatisfiable = "ScheduleAnyway"
  }]
}
