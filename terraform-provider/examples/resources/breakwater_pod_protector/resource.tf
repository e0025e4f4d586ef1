# At least 40 pods of the application stay available, over all worker clusters together.
resource "breakwater_pod_protector" "web" {
  namespace     = "shop"
  name          = "web"
  labels        = { team = "shop" }
  selector      = { match_labels = { app = "web" } }
  min_available = "40"
}
