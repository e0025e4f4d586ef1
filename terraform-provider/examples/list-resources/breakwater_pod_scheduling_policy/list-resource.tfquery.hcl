list "breakwater_pod_scheduling_policy" "all" {
  provider = breakwater
}
