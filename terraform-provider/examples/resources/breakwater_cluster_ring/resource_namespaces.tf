# One instance works on all objects in the namespace of a tenant. If it does not renew its Lease for a minute, another one takes over.
# The apply ends when objects are being assigned.
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
