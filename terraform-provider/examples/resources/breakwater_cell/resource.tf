# A worker cluster. `breakwater join --no-cell` or a secret store writes its kubeconfig into the Secret.
resource "breakwater_cell" "worker_1" {
  name                  = "worker-1"
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-worker-1" }
}
