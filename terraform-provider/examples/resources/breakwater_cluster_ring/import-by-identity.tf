import {
  to       = breakwater_cluster_ring.databases
  identity = { name = "databases" }
}
