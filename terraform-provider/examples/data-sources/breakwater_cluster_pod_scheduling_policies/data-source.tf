data "breakwater_cluster_pod_scheduling_policies" "all" {}

output "cluster_scheduling_policies" {
  value = { for p in data.breakwater_cluster_pod_scheduling_policies.all.cluster_pod_scheduling_policies : p.name => p.priority }
}
