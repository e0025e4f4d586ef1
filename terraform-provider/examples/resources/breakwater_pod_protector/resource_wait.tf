# The apply ends when the number of pods that must stay available is known.
resource "breakwater_pod_protector" "catalog" {
  namespace     = "shop"
  name          = "catalog"
  selector      = { match_labels = { app = "catalog" } }
  min_available = "1"

  wait {
    fields = { "status.desired_available" = "[0-9]+" }
  }

  timeouts {
    create = "2m"
  }
}
