# label_selector selects some of the rings.
data "breakwater_cluster_rings" "all" {}

output "rings" {
  value = { for r in data.breakwater_cluster_rings.all.cluster_rings : r.name => r.resources[*].resource if r.resources != null }
}
