# At most 10% of the pods of a Deployment may be unavailable at once; in-place updates count as well. The apply ends when the
# pods are counted, or reports after five minutes why they are not.
resource "breakwater_pod_protector" "checkout" {
  namespace       = "shop"
  name            = "checkout"
  target_ref      = { api_version = "apps/v1", kind = "Deployment", name = "checkout" }
  max_unavailable = "10%"
  operations      = ["Delete", "Evict", "Relabel", "Update"]

  wait {}

  timeouts {
    create = "5m"
    update = "5m"
  }
}
