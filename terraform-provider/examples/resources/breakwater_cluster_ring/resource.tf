# The databases of an operator are distributed among its instances. Objects that the operator creates for a database are assigned to
# the same instance. The instances have their Leases in the namespace of the operator.
resource "breakwater_cluster_ring" "databases" {
  name            = "databases"
  shard_namespace = "database-operator"

  resources = [{
    group    = "example.com"
    resource = "databases"
    controlled_resources = [
      { group = "apps", resource = "statefulsets" },
      { resource = "secrets" },
    ]
  }]
}
