import {
  to       = breakwater_protection_policy.frontend
  identity = { namespace = "shop", name = "frontend" }
}
