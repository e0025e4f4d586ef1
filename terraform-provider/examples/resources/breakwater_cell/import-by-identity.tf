import {
  to       = breakwater_cell.worker_1
  identity = { name = "worker-1" }
}
