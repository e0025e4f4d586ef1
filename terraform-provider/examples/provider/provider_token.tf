# With the token of a ServiceAccount, which is neither in a file nor in the state.
variable "core_token" {
  type      = string
  sensitive = true
  ephemeral = true
}

provider "breakwater" {
  host                   = "https://core.example:6443"
  cluster_ca_certificate = file("${path.module}/core-ca.crt")
  token                  = var.core_token
}
