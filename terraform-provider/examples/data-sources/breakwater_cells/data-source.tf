# The cells that are not ready: they have no leader, or their pods have not been listed yet.
data "breakwater_cells" "all" {}

output "cells_that_are_not_ready" {
  value = [
    for cell in data.breakwater_cells.all.cells : cell.name
    if try([for c in cell.status.conditions : c.status if c.type == "Ready"][0], "Unknown") != "True"
  ]
}
