provider "breakwater" {
  field_manager = "Terraform" # that of kubernetes_manifest, for the first apply only
}

# before: resource "kubernetes_manifest" "search" { manifest = { ... } }
removed {
  from = kubernetes_manifest.search

  lifecycle {
    destroy = false
  }
}

import {
  to = breakwater_pod_protector.search
  id = "shop/search"
}

resource "breakwater_pod_protector" "search" {
  namespace     = "shop"
  name          = "search"
  labels        = { team = "shop" }
  selector      = { match_labels = { app = "search" } }
  min_available = "70%"
}
