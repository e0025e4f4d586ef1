# A worker cluster whose kubeconfig Terraform writes into the Secret. It is in no state and in no plan: increase the version
# when it has changed.
variable "worker_2_kubeconfig" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "breakwater_cell" "worker_2" {
  name                  = "worker-2"
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-worker-2" }
  kubeconfig_wo         = var.worker_2_kubeconfig
  kubeconfig_wo_version = 1
  deletion_protection   = true

  wait {
    conditions = { Ready = "True", Connected = "True" }
  }
}
