# With a program that prints credentials, such as the command-line tool of a cloud provider.
provider "breakwater" {
  host                   = "https://core.example:6443"
  cluster_ca_certificate = file("${path.module}/core-ca.crt")

  exec {
    api_version = "client.authentication.k8s.io/v1"
    command     = "aws"
    args        = ["eks", "get-token", "--cluster-name", "core"]
  }
}
