import {
  to       = breakwater_cluster_protection_policy.production
  identity = { name = "production" }
}
