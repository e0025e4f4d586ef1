data "breakwater_pod_scheduling_policies" "shop" {
  namespace = "shop"
}

output "scheduling_policies_of_shop" {
  value = data.breakwater_pod_scheduling_policies.shop.pod_scheduling_policies[*].name
}
