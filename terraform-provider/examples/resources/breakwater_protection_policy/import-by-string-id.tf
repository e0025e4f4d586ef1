import {
  to = breakwater_protection_policy.frontend
  id = "shop/frontend"
}
