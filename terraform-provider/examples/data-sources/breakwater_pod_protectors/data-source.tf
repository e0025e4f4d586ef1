# The protectors of a namespace; label_selector selects some of them.
data "breakwater_pod_protectors" "shop" {
  namespace = "shop"
}

output "without_budget" {
  value = [for p in data.breakwater_pod_protectors.shop.pod_protectors : p.name if try(p.status.disruptions_allowed, 0) == 0]
}
