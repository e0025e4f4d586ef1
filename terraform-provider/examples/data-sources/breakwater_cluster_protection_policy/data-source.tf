data "breakwater_cluster_protection_policy" "production" {
  name = "production"
}

output "production_namespaces" {
  value = data.breakwater_cluster_protection_policy.production.namespace_selector.match_labels
}
