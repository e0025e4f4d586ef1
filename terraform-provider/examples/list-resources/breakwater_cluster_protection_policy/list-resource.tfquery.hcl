list "breakwater_cluster_protection_policy" "all" {
  provider = breakwater
}
