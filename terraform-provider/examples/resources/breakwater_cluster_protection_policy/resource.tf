# In all production namespaces, by the size of the workload: of one to three pods one may be unavailable, of more than three, 10%.
# A policy in the namespace itself takes precedence.
resource "breakwater_cluster_protection_policy" "production" {
  name               = "production"
  namespace_selector = { match_labels = { environment = "production" } }
  floor = {
    bands = [
      { up_to_replicas = 3, max_unavailable = "1" },
      { max_unavailable = "10%" },
    ]
  }
}
