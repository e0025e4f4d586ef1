# In this namespace each Deployment and StatefulSet of the tier has a protector: 70% of its replicas stay available.
resource "breakwater_protection_policy" "frontend" {
  namespace = "shop"
  name      = "frontend"
  workloads = { selector = { match_labels = { tier = "frontend" } } }
  floor     = { min_available = "70%" }
}
