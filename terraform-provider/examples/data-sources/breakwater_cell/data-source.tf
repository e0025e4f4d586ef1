data "breakwater_cell" "worker_1" {
  name = "worker-1"
}

output "pods_of_worker_1" {
  value = try(data.breakwater_cell.worker_1.status.pods, null)
}
