data "breakwater_protection_policies" "shop" {
  namespace = "shop"
}

output "policies_of_shop" {
  value = { for p in data.breakwater_protection_policies.shop.protection_policies : p.name => p.priority }
}
