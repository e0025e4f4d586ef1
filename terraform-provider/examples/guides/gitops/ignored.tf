# The floor is only the initial value: another client changes it.
resource "breakwater_pod_protector" "moved_by_others" {
  namespace     = "shop"
  name          = "autoscaled"
  selector      = { match_labels = { app = "autoscaled" } }
  min_available = "10"

  lifecycle {
    ignore_changes = [min_available]
  }
}
