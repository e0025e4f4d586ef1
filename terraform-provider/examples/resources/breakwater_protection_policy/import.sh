# by NAMESPACE/NAME
terraform import breakwater_protection_policy.frontend shop/frontend
