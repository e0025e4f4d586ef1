# A protector that was deleted, while no generator runs to let go of it:
# terraform apply -invoke=action.breakwater_release.old
action "breakwater_release" "old" {
  config {
    namespace = "shop"
    name      = "old"
  }
}
