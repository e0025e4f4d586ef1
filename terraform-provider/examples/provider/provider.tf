terraform {
  required_providers {
    breakwater = {
      source = "breakwater-k8s/breakwater"
    }
  }
}

# The core cluster, in which protectors and Cells are.
provider "breakwater" {
  config_path    = "~/.kube/config"
  config_context = "core"
}
