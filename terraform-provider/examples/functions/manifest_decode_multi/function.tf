# All manifests of a file, by their names.
locals {
  manifests = {
    for m in provider::breakwater::manifest_decode_multi(file("${path.module}/protectors.yaml")) : m.metadata.name => m
  }
}

output "floors_by_name" {
  value = { for name, m in local.manifests : name => m.spec.minAvailable }
}
