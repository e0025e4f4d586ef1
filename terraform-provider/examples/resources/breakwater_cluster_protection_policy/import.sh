# by NAME
terraform import breakwater_cluster_protection_policy.production production
