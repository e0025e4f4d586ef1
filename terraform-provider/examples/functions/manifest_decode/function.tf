# The floor of a protector that lies beside its application as a manifest.
output "floor_of_search" {
  value = provider::breakwater::manifest_decode(file("${path.module}/protector.yaml")).spec.minAvailable
}
