locals {
  protected = { match_expressions = [{ key = "tier", operator = "In", values = ["web", "api"] }] }
  release   = { app = "shop", tier = "web", track = "canary" }
}

# Whether a selector matches pods with these labels.
output "release_is_protected" {
  value = provider::breakwater::selector_matches(local.protected, local.release)
}
