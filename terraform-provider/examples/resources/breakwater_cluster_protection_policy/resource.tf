# In all namespaces of production, by the size of the workload: of one to three pods one may be missing, of more a tenth.
# A policy of the namespace itself comes before it.
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
