# Pods of web that a protector covers keep out of each other's zones while there is room elsewhere, so that no zone takes all of them
# with it.
resource "breakwater_pod_scheduling_policy" "zones" {
  namespace          = "shop"
  name               = "zones"
  pod_selector       = { match_labels = { app = "web" } }
  protector_selector = {}

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
