# A deleted protector whose finalizers no generator removes:
# terraform apply -invoke=action.breakwater_release.old
action "breakwater_release" "old" {
  config {
    namespace = "shop"
    name      = "old"
  }
}
