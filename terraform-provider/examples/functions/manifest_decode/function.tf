# The floor of a protector that is stored as a manifest next to its application.
output "floor_of_search" {
  value = provider::breakwater::manifest_decode(file("${path.module}/protector.yaml")).spec.minAvailable
}
