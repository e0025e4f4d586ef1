# By a program that logs in, as the command line tools of clouds have one.
provider "breakwater" {
  host                   = "https://core.example:6443"
  cluster_ca_certificate = file("${path.module}/core-ca.crt")

  exec {
    api_version = "client.authentication.k8s.io/v1"
    command     = "aws"
    args        = ["eks", "get-token", "--cluster-name", "core"]
  }
}
