# Each plan and apply warns while a cell is not as it should be. Inside the check the data source would make every plan have
# something to do.
data "breakwater_topology" "core" {}

check "breakwater" {
  assert {
    condition     = data.breakwater_topology.core.healthy
    error_message = join(" ", data.breakwater_topology.core.problems)
  }
}
