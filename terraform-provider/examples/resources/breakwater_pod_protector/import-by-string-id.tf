import {
  to = breakwater_pod_protector.web
  id = "shop/web"
}
