# Whether the ring distributes its objects.
data "breakwater_cluster_ring" "databases" {
  name = "databases"
}

output "ring_is_ready" {
  value = try([for c in data.breakwater_cluster_ring.databases.status.conditions : c.status if c.type == "Ready"][0], "Unknown")
}
