# Every etcd runs on its dedicated pool of nodes: the toleration admits it there, and the affinity keeps it off all other
# nodes. A pod that can run only on other nodes is denied. The apply ends when the webhooks apply the policy.
resource "breakwater_cluster_pod_scheduling_policy" "etcd" {
  name               = "etcd"
  namespace_selector = { match_labels = {} }
  pod_selector       = { match_labels = { "app.kubernetes.io/name" = "etcd" } }
  priority           = 100
  conflict_policy    = "Reject"

  affinity = {
    node_affinity = {
      required_during_scheduling_ignored_during_execution = {
        node_selector_terms = [{
          match_expressions = [{ key = "example.com/pool", operator = "In", values = ["etcd"] }]
        }]
      }
    }
  }

  tolerations = [{
    key    = "example.com/pool"
    value  = "etcd"
    effect = "NoSchedule"
  }]

  wait {}
}
