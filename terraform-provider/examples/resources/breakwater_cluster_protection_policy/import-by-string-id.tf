import {
  to = breakwater_cluster_protection_policy.production
  id = "production"
}
