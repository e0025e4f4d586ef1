# The platform's part: the clusters, and a default policy for all of production. Protectors of single applications are next to
# their manifests, and GitOps applies them.
resource "breakwater_cell" "worker" {
  for_each              = toset(["worker-1", "worker-2"])
  name                  = each.key
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-${each.key}" }
}

resource "breakwater_cluster_protection_policy" "production" {
  name               = "production"
  namespace_selector = { match_labels = { environment = "production" } }
  floor              = { min_available = "70%" }
}
