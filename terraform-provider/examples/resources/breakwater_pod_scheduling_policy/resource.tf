# Pods of web that a protector covers avoid each other's zones while other zones have room, so that the loss of one zone does not
# remove all of them.
resource "breakwater_pod_scheduling_policy" "zones" {
  namespace          = "shop"
  name               = "zones"
  pod_selector       = { match_labels = { app = "web" } }
  protector_selector = { match_labels = {} }

  affinity = {
    pod_anti_affinity = {
      preferred_during_scheduling_ignored_during_execution = [{
        weight = 100
        pod_affinity_term = {
          topology_key   = "topology.kubernetes.io/zone"
          label_selector = { match_labels = { app = "web" } }
        }
      }]
    }
  }
}
