# by NAME
terraform import breakwater_cluster_pod_scheduling_policy.spread spread
