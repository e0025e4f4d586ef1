list "breakwater_cluster_ring" "all" {
  provider = breakwater
}
