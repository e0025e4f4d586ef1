# Everywhere else, as many pods as a rollout of the workload keeps available. When the policy is deleted, so are its protectors.
resource "breakwater_cluster_protection_policy" "rest" {
  name                  = "rest"
  priority              = -100
  floor                 = { from_strategy = {} }
  target_removal_policy = "Release"

  workloads = {
    kinds = [
      { api_version = "apps/v1", kind = "Deployment" },
      { api_version = "apps/v1", kind = "StatefulSet" },
      { api_version = "argoproj.io/v1alpha1", kind = "Rollout" },
    ]
  }
}
