# before: resource "kubernetes_manifest" "web" { manifest = { ... } }
moved {
  from = kubernetes_manifest.web
  to   = breakwater_pod_protector.web
}

resource "breakwater_pod_protector" "web" {
  namespace     = "shop"
  name          = "web"
  selector      = { match_labels = { app = "web" } }
  min_available = "40"
}
