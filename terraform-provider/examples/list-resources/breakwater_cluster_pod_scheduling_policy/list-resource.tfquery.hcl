list "breakwater_cluster_pod_scheduling_policy" "all" {
  provider = breakwater
}
