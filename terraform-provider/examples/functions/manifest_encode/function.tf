# A manifest for a repository that GitOps syncs.
output "protector_for_git" {
  value = provider::breakwater::manifest_encode({
    apiVersion = "breakwater.dev/v1alpha1"
    kind       = "PodProtector"
    metadata   = { namespace = "shop", name = "search" }
    spec       = { selector = { matchLabels = { app = "search" } }, minAvailable = "70%" }
  })
}
