data "breakwater_protection_policy" "frontend" {
  namespace = "shop"
  name      = "frontend"
}

output "floor_of_the_frontend" {
  value = data.breakwater_protection_policy.frontend.floor.min_available
}
