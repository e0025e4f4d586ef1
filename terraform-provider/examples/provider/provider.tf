terraform {
  required_providers {
    breakwater = {
      source = "breakwater-k8s/breakwater"
    }
  }
}

# The core cluster, which contains the protectors and Cells.
provider "breakwater" {
  config_path    = "~/.kube/config"
  config_context = "core"
}
