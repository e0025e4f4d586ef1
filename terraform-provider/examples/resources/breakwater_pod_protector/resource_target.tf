# Of the pods of a Deployment a tenth may be missing at once; updates in place count as well. The apply ends when the pods
# are counted, or says after five minutes why they are not.
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
