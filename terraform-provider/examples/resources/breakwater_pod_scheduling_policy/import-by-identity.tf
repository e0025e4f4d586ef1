import {
  to       = breakwater_pod_scheduling_policy.zones
  identity = { namespace = "shop", name = "zones" }
}
