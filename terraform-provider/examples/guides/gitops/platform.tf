# The platform's part: which clusters there are, and a net under all of production. Protectors of single applications lie beside
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
