data "breakwater_pod_scheduling_policy" "zones" {
  namespace = "shop"
  name      = "zones"
}

output "pods_with_the_policy" {
  value = data.breakwater_pod_scheduling_policy.zones.pod_selector.match_labels
}
