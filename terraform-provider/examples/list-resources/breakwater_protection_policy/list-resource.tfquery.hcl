list "breakwater_protection_policy" "all" {
  provider = breakwater
}
