import {
  to = breakwater_cluster_pod_scheduling_policy.spread
  id = "spread"
}
