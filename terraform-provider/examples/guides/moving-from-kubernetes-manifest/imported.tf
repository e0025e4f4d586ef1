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
  selector      = { match_labels = { app = "search" } }
  min_available = "70%"
}
