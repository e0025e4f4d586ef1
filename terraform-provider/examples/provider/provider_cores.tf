# One for each core cluster. Resources without a provider argument use the first one.
provider "breakwater" {
  config_path    = "~/.kube/config"
  config_context = "core-eu"
}

provider "breakwater" {
  alias          = "us"
  config_path    = "~/.kube/config"
  config_context = "core-us"
}

resource "breakwater_cell" "worker_1_for_us" {
  provider              = breakwater.us
  name                  = "worker-1"
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-worker-1" }
}
