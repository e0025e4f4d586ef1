# Reports run on spot nodes, with another scheduler. The policy changes the templates of their workloads with the next update, so that a
# template shows what its pods will have.
resource "breakwater_pod_scheduling_policy" "reports" {
  namespace        = "shop"
  name             = "reports"
  pod_selector     = { match_labels = { tier = "reports" } }
  targets          = ["Pods", "PodTemplates"]
  template_updates = "Inject"

  scheduler_name = "batch-scheduler"
  node_selector  = { "example.com/lifecycle" = "spot" }
  tolerations    = [{ key = "example.com/spot", operator = "Exists" }]
}
