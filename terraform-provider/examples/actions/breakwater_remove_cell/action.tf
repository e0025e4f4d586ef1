# A worker that no longer exists: terraform apply -invoke=action.breakwater_remove_cell.worker_9
action "breakwater_remove_cell" "worker_9" {
  config {
    cell           = "worker-9"
    all_protectors = true
  }
}
