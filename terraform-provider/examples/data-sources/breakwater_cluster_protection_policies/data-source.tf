data "breakwater_cluster_protection_policies" "all" {}

output "cluster_policies" {
  value = data.breakwater_cluster_protection_policies.all.cluster_protection_policies[*].name
}
