# Only some namespaces of a cluster.
resource "breakwater_cell" "payment" {
  name                  = "payment"
  namespaces            = ["payment", "ledger"]
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "cell-worker-3" }
}
