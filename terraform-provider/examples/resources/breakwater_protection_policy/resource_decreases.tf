# These workloads are scaled to 0 every night, all at once. The policy allows all of them to lower their floors, and their decreases do not
# consume the budget of other workloads. Floors of a deleted namespace stay in force until you confirm their release.
resource "breakwater_protection_policy" "nightly" {
  namespace = "shop"
  name      = "nightly"
  workloads = { selector = { match_labels = { schedule = "office-hours" } } }
  floor     = { min_available = "50%" }
  large_decreases = {
    percent      = 100
    window       = "1h"
    quiet_period = "10s"
    on_cascade   = "Hold"
  }
}
