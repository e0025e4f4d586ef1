terraform {
  required_providers {
    breakwater = {
      source                = "breakwater-k8s/breakwater"
      configuration_aliases = [breakwater.eu, breakwater.us, breakwater.worker]
    }
  }
}

variable "name" {
  type = string
}

locals {
  secret = { namespace = "breakwater-system", name = "cell-${var.name}" }
  # The version is the date: with an apply every day, tokens that are valid for two days suffice.
  today = tonumber(formatdate("YYYYMMDD", plantimestamp()))
}

ephemeral "breakwater_worker_kubeconfig" "this" {
  provider           = breakwater.worker
  expiration_seconds = 172800
}

resource "breakwater_cell" "eu" {
  provider              = breakwater.eu
  name                  = var.name
  kubeconfig_secret_ref = local.secret
  kubeconfig_wo         = ephemeral.breakwater_worker_kubeconfig.this.kubeconfig
  kubeconfig_wo_version = local.today
}

resource "breakwater_cell" "us" {
  provider              = breakwater.us
  name                  = var.name
  kubeconfig_secret_ref = local.secret
  kubeconfig_wo         = ephemeral.breakwater_worker_kubeconfig.this.kubeconfig
  kubeconfig_wo_version = local.today
}
