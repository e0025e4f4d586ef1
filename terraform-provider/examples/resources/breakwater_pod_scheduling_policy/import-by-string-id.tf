import {
  to = breakwater_pod_scheduling_policy.zones
  id = "shop/zones"
}
