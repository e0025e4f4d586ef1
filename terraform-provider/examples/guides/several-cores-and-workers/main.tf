terraform {
  required_providers {
    breakwater = { source = "breakwater-k8s/breakwater" }
  }
}

# Two cores, two workers. Each worker serves both cores.
provider "breakwater" {
  alias          = "eu"
  config_path    = "~/.kube/config"
  config_context = "core-eu"
}

provider "breakwater" {
  alias          = "us"
  config_path    = "~/.kube/config"
  config_context = "core-us"
}

locals {
  workers = toset(["worker-1", "worker-2"])
}

# breakwater join --no-cell writes the Secrets.
resource "breakwater_cell" "eu" {
  for_each              = local.workers
  provider              = breakwater.eu
  name                  = each.key
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-${each.key}" }
}

resource "breakwater_cell" "us" {
  for_each              = local.workers
  provider              = breakwater.us
  name                  = each.key
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-${each.key}" }
}

# A protector exists in one core. It covers pods in all workers.
resource "breakwater_pod_protector" "web" {
  provider      = breakwater.eu
  namespace     = "shop"
  name          = "web"
  selector      = { match_labels = { app = "web" } }
  min_available = "40"
  depends_on    = [breakwater_cell.eu]
}
