data "breakwater_cluster_pod_scheduling_policy" "spread" {
  name = "spread"
}

output "spread_keys" {
  value = data.breakwater_cluster_pod_scheduling_policy.spread.topology_spread_constraints[*].topology_key
}
