# A protector that another client or a policy created.
data "breakwater_pod_protector" "web" {
  namespace = "shop"
  name      = "web"
}

output "web_may_lose" {
  value = try(data.breakwater_pod_protector.web.status.disruptions_allowed, null)
}
