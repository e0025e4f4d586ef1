import {
  to       = breakwater_pod_protector.web
  identity = { namespace = "shop", name = "web" }
}
