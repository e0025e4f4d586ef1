# Every etcd goes to the pool of workers that is set aside for it: the toleration lets it onto them, and the affinity keeps it off all
# others. One that can only go to others is refused. The apply ends when the webhooks heed the policy.
resource "breakwater_cluster_pod_scheduling_policy" "etcd" {
  name               = "etcd"
  namespace_selector = {}
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
