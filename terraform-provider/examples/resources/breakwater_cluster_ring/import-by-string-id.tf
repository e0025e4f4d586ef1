import {
  to = breakwater_cluster_ring.databases
  id = "databases"
}
