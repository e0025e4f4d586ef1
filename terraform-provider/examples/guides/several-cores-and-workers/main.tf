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

provider "breakwater" {
  alias          = "worker_1"
  config_path    = "~/.kube/config"
  config_context = "worker-1"
}

provider "breakwater" {
  alias          = "worker_2"
  config_path    = "~/.kube/config"
  config_context = "worker-2"
}

module "worker_1" {
  source    = "./worker"
  name      = "worker-1"
  providers = { breakwater.eu = breakwater.eu, breakwater.us = breakwater.us, breakwater.worker = breakwater.worker_1 }
}

module "worker_2" {
  source    = "./worker"
  name      = "worker-2"
  providers = { breakwater.eu = breakwater.eu, breakwater.us = breakwater.us, breakwater.worker = breakwater.worker_2 }
}

# A protector exists in one core. It covers pods in all workers.
resource "breakwater_pod_protector" "web" {
  provider      = breakwater.eu
  namespace     = "shop"
  name          = "web"
  selector      = { match_labels = { app = "web" } }
  min_available = "40"
  depends_on    = [module.worker_1, module.worker_2]
}
