# One instance works on all that is in a namespace of a tenant. When it has not been heard of for a minute another one does. The apply
# ends when objects are being assigned.
resource "breakwater_cluster_ring" "tenants" {
  name                   = "tenants"
  shard_namespace        = "tenant-operator"
  key_policy             = "Namespace"
  namespace_selector     = { match_labels = { tenant = "true" } }
  lease_duration_seconds = 30

  resources = [
    { resource = "configmaps" },
    { group = "networking.k8s.io", resource = "networkpolicies" },
  ]

  wait {}
}
