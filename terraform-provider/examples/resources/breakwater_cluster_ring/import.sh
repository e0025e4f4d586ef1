# by NAME
terraform import breakwater_cluster_ring.databases databases
