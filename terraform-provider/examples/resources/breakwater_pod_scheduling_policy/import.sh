# by NAMESPACE/NAME
terraform import breakwater_pod_scheduling_policy.zones shop/zones
