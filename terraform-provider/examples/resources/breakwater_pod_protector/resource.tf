# At least 40 pods of the application stay available, across all worker clusters.
resource "breakwater_pod_protector" "web" {
  namespace     = "shop"
  name          = "web"
  labels        = { team = "shop" }
  selector      = { match_labels = { app = "web" } }
  min_available = "40"
}
