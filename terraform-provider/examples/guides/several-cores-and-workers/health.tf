# Each core and the state of its cells.
data "breakwater_topology" "eu" {
  provider = breakwater.eu
}

data "breakwater_topology" "us" {
  provider = breakwater.us
}

check "topology" {
  assert {
    condition     = data.breakwater_topology.eu.healthy && data.breakwater_topology.us.healthy
    error_message = join(" ", concat(data.breakwater_topology.eu.problems, data.breakwater_topology.us.problems))
  }
}
