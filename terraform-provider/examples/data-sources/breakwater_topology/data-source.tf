# Each plan and apply warns while a cell is not healthy. If the data source were inside the check, every plan would have
# changes.
data "breakwater_topology" "core" {}

check "breakwater" {
  assert {
    condition     = data.breakwater_topology.core.healthy
    error_message = join(" ", data.breakwater_topology.core.problems)
  }
}
