# The worker cluster, where the chart is installed with access.enabled: true.
provider "breakwater" {
  alias          = "worker_4"
  config_path    = "~/.kube/config"
  config_context = "worker-4"
}

ephemeral "breakwater_worker_kubeconfig" "worker_4" {
  provider           = breakwater.worker_4
  expiration_seconds = 86400
}

# The core cluster gets a token that is valid for a day. Increase the version and apply before it expires.
resource "breakwater_cell" "worker_4" {
  name                  = "worker-4"
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-worker-4" }
  kubeconfig_wo         = ephemeral.breakwater_worker_kubeconfig.worker_4.kubeconfig
  kubeconfig_wo_version = 1
}
