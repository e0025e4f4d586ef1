import {
  to = breakwater_cell.worker_1
  id = "worker-1"
}
