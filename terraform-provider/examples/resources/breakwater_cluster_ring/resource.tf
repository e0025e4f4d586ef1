# The databases of an operator are spread over its instances, and what the operator makes of a database goes where that is. The
# instances have their Leases in its namespace.
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
