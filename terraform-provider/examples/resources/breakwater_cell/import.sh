# by NAME
terraform import breakwater_cell.worker_1 worker-1
